"""What every command shares: settings, ledger and broker, each opened when it is first asked for."""

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
    """One call of the command line. Who brings a ledger and a broker, as tests do, needs no Redis."""

    deploy: Path | None = None
    own_ledger: Ledger | None = None
    own_broker: Broker | None = None
    _opened: list[RedisBroker] = field(default_factory=list)

    @cached_property
    def settings(self) -> Settings:
        """Raises SettingsError."""
        return load_settings(self.deploy)

    @cached_property
    def ledger(self) -> Ledger:
        """Raises RedisUnreachable."""
        return self.own_ledger or RedisLedger.connect(self.settings)

    @cached_property
    def broker(self) -> Broker:
        """Raises RedisUnreachable."""
        if self.own_broker is not None:
            return self.own_broker
        if not isinstance(self.ledger, RedisLedger):
            return MemoryBroker(self.ledger)
        broker = RedisBroker(self.settings, self.ledger)
        self._opened.append(broker)
        return broker

    def reach(self) -> None:
        """Raise RedisUnreachable now, so that nobody learns it after a long file was read."""
        _ = self.ledger

    def run(self, name: str) -> Run:
        """The run that `name` means, as `Ledger.named` has it."""
        return self.ledger.named(name)

    def close(self) -> None:
        """Give connections back."""
        for broker in self._opened:
            broker.close()
