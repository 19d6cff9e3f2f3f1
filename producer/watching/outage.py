"""Waiting for a Redis that is away for a while, and saying so to those who watch."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from contract.errors import RedisUnreachable, WritesRefused

__all__ = ["Clock", "Outage"]


@dataclass(frozen=True, slots=True)
class Clock:
    """Source of time, replaceable in tests."""

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


@dataclass
class Outage:
    """Says once that Redis is unreachable or refuses writes, and once that it is back."""

    say: Callable[[str], object]
    clock: Clock = field(default_factory=Clock)
    _since: float | None = None

    @contextmanager
    def waited_for(self) -> Iterator[None]:
        """Run the block, or as much of it as Redis lets: while it is away, the caller repeats the block."""
        began = self.clock.now()  # what fails may have waited long for an answer
        try:
            yield
        except (RedisUnreachable, WritesRefused) as trouble:
            if self._since is None:
                self._since = began
                self.say(f"{trouble.message} Retrying until it responds.")
        else:
            if self._since is not None:
                self.say(f"Redis is back after {self.clock.now() - self._since:.0f} s.")
                self._since = None
