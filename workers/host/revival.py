"""Which of a launcher's given-up workers are to be started again: `workers restart` says so, from any host.

A thread asks Redis, because the launcher must not block on it.
"""

from __future__ import annotations

import threading
from collections.abc import Collection
from contextlib import suppress
from types import TracebackType
from typing import Self

from contract.connection import connect_hurried
from contract.errors import LedgerError
from contract.fleet import Fleet, Wish
from contract.settings import Settings

__all__ = ["Revival"]

LOOK_EVERY_S = 2.0


class Revival(threading.Thread):
    """Looks for wishes to restart given-up workers, as long as the block lasts."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(name="revival", daemon=True)
        self._settings = settings
        self._fleet: Fleet | None = None
        self._lock = threading.Lock()
        self._given_up: Collection[str] = ()
        self._wished: set[str] = set()
        self._stopped = threading.Event()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stopped.set()  # not joined: it may be waiting for an answer

    def wished(self, given_up: Collection[str]) -> set[str]:
        """Return which of the workers `given_up`, by name, to start again, each once for every wish. Never blocks."""
        with self._lock:
            self._given_up = given_up
            found, self._wished = self._wished.intersection(given_up), set()
        return found

    def run(self) -> None:
        while not self._stopped.wait(LOOK_EVERY_S):
            with suppress(LedgerError):  # the wish stays there
                self._look()

    def _look(self) -> None:
        for name in self._given_up:
            self._fleet = self._fleet or Fleet(connect_hurried(self._settings), self._settings.redis_place)
            if self._fleet.wish(name) is Wish.RESTART:
                self._fleet.fulfilled(name)
                with self._lock:
                    self._wished.add(name)
