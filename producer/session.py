"""State shared by all commands: settings, ledger and broker, each opened on first use."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, cast

from contract.fair_share import weight_of
from contract.fleet import Fleet, WorkerRecord
from contract.ledger import Ledger, RedisLedger, Run
from contract.settings import Settings, load_settings

if TYPE_CHECKING:
    from producer.broker import Broker

__all__ = ["Session"]


@dataclass
class Session:
    """One invocation of the command line."""

    deploy: Path | None = None

    @cached_property
    def settings(self) -> Settings:
        """The settings. Raises SettingsError."""
        return load_settings(self.deploy)

    @cached_property
    def ledger(self) -> Ledger:
        """The ledger. Raises LedgerError."""
        return RedisLedger.connect(self.settings)

    @cached_property
    def broker(self) -> Broker:
        """The broker. Raises LedgerError."""
        from producer.broker import RedisBroker  # loads Celery, which `export` and others do without

        return RedisBroker(self.settings, cast(RedisLedger, self.ledger))

    def live_workers(self) -> list[WorkerRecord]:
        """Return all live workers; unlike `Broker.all_workers`, without loading Celery."""
        ledger = cast(RedisLedger, self.ledger)
        return Fleet(ledger.client).alive()

    def weight(self, run_id: str) -> int:
        """Return the run's turns for each turn of other runs; unlike `Broker.weight`, without loading Celery."""
        return weight_of(cast(RedisLedger, self.ledger), run_id)

    def reach(self) -> None:
        """Raise LedgerError now rather than after a long file has been read."""
        _ = self.ledger

    def run(self, name: str) -> Run:
        """Return the run that `name` refers to, as resolved by `Ledger.named`."""
        return self.ledger.named(name)

    def runs(self, names: Iterable[str]) -> list[Run]:
        """Return the runs that `names` refer to, each once. A wrong name is refused before any of them is used."""
        return list({run.run_id: run for run in map(self.run, names)}.values())

    def close(self) -> None:
        """Close the connections."""
        if "broker" in vars(self):  # without opening it
            self.broker.close()
