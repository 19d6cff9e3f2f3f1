"""What several commands share: options for settings, the run that is meant."""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import wraps
from pathlib import Path
from typing import Any, cast

from contract import variables
from contract.commands import Command, config_options, note
from contract.ledger import Ledger, RedisLedger, Run
from contract.settings import PREFIX, Settings, load_fleet
from contract.suggested import repeat
from workers.recheck.serving import serving

__all__ = ["load_served_run", "settings_options"]


def settings_options(command: Command) -> Command:
    """Add `--config` and `--set`, which commands that the command suggests repeat."""

    @wraps(command)
    def with_settings(config: Path | None, overrides: tuple[str, ...], **others: Any) -> Any:
        repeat(config, overrides=overrides)
        _tell_overridden(overrides)
        return command(config=config, overrides=overrides, **others)

    add = config_options(
        f"Deploy file, e.g. configs/deploy/laptop.yaml. Default: the one that {variables.CONFIG} names.",
        f"Override a setting of that file, e.g. batch_size=8. A variable, {PREFIX}BATCH_SIZE, overrides both.",
    )
    return add(cast(Command, with_settings))


def _tell_overridden(overrides: Iterable[str]) -> None:
    """Say which of `--set` have no effect: of most programs, one would expect that they outweigh the environment."""
    for name, _, value in (each.partition("=") for each in overrides):
        variable = PREFIX + name.replace(".", "__").upper()
        if os.environ.get(variable, value) != value:
            note(f"note: {variable} in the environment overrides --set {name}")


def load_served_run(name: str, config: Path | None, overrides: tuple[str, ...]) -> tuple[Settings, Ledger, Run]:
    """The run called `name`, its ledger, and the settings that serve its model. Raises McqueueError."""
    fleet = load_fleet(config, overrides)
    ledger = RedisLedger.connect(fleet[0])
    run = ledger.named(name)
    return serving(fleet, run), ledger, run
