"""State shared by all commands: settings, ledger and broker, each opened on first use."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from contract.ledger import Ledger, RedisLedger, Run
from contract.settings import Settings, load_settings
from producer.broker import Broker, MemoryBroker, RedisBroker

__all__ = ["Session"]


@dataclass
class Session:
    """One invocation of the command line. With a ledger and broker passed in, as in tests, no Redis is needed."""

    deploy: Path | None = None
    own_ledger: Ledger | None = None
    own_broker: Broker | None = None
    _opened: list[RedisBroker] = field(default_factory=list)

    @cached_property
    def settings(self) -> Settings:
        """The settings. Raises SettingsError."""
        return load_settings(self.deploy)

    @cached_property
    def ledger(self) -> Ledger:
        """The ledger. Raises RedisUnreachable."""
        return self.own_ledger or RedisLedger.connect(self.settings)

    @cached_property
    def broker(self) -> Broker:
        """The broker. Raises RedisUnreachable."""
        if self.own_broker is not None:
            return self.own_broker
        if not isinstance(self.ledger, RedisLedger):
            return MemoryBroker(self.ledger)
        broker = RedisBroker(self.settings, self.ledger)
        self._opened.append(broker)
        return broker

    def reach(self) -> None:
        """Raise RedisUnreachable now rather than after a long file has been read."""
        _ = self.ledger

    def run(self, name: str) -> Run:
        """Return the run that `name` refers to, as resolved by `Ledger.named`."""
        return self.ledger.named(name)

    def close(self) -> None:
        """Close the connections."""
        for broker in self._opened:
            broker.close()
