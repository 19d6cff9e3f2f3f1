"""What several commands share: options for settings, the run that is meant."""

from __future__ import annotations

from pathlib import Path

from contract.commands import config_options
from contract.ledger import Ledger, RedisLedger, Run
from contract.settings import Settings, load_fleet
from workers.recheck.serving import serving

__all__ = ["asked_of", "settings_options"]


settings_options = config_options(
    "Deploy file, e.g. configs/deploy/laptop.yaml.", "Override a setting, e.g. batch_size=8."
)


def asked_of(name: str, config: Path | None, overrides: tuple[str, ...]) -> tuple[Settings, Ledger, Run]:
    """The run called `name`, its ledger, and the settings that serve its model. Raises McqueueError."""
    fleet = load_fleet(config, overrides)
    ledger = RedisLedger.connect(fleet[0])
    run = ledger.named(name)
    return serving(fleet, run), ledger, run
