"""Which of a launcher's given-up workers are to be started again: `workers restart` says so, from any host."""

from __future__ import annotations

import threading
from collections.abc import Collection
from contextlib import suppress

from contract.errors import LedgerError
from contract.fleet import Fleet, Wish
from contract.settings import Settings
from workers.rounds import Rounds

__all__ = ["Revival"]


class Revival(Rounds):
    """Looks for wishes to restart given-up workers, as long as the block lasts."""

    def __init__(self, settings: Settings) -> None:
        super().__init__("revival")
        self._settings = settings
        self._fleet: Fleet | None = None
        self._lock = threading.Lock()
        self._given_up: Collection[str] = ()
        self._wished: set[str] = set()

    def wished(self, given_up: Collection[str]) -> set[str]:
        """Return which of the workers `given_up`, by name, to start again, each once for every wish. Never blocks."""
        with self._lock:
            self._given_up = given_up
            found, self._wished = self._wished.intersection(given_up), set()
        return found

    def round(self) -> None:
        """Look once."""
        with suppress(LedgerError):  # the wish stays there
            self._look()

    def _look(self) -> None:
        for name in self._given_up:
            self._fleet = self._fleet or Fleet.connect_hurried(self._settings)
            if self._fleet.wish(name) is Wish.RESTART:
                self._fleet.fulfilled(name)
                with self._lock:
                    self._wished.add(name)
