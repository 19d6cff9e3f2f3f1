"""Background threads that work in rounds, so that a worker or a launcher itself never blocks on Redis."""

from __future__ import annotations

import abc
import logging
import threading
from typing import Self

from contract.errors import McqueueError
from workers.retries import LastTold, reason_of

__all__ = ["Rounds"]

log = logging.getLogger(__name__)

ROUND_S = 2.0


class Rounds(threading.Thread, abc.ABC):
    """A thread that calls `round` every two seconds until stopped, whatever it raises."""

    def __init__(self, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self._stopped = threading.Event()
        self._last_told = LastTold()

    def run(self) -> None:
        while not self._stopped.wait(ROUND_S):
            try:
                self.round()
            except Exception as trouble:  # noqa: BLE001 - a failed round must not end the thread
                self._log(trouble)
            else:
                self._last_told.forget()

    def _log(self, trouble: Exception) -> None:
        if self._last_told.is_news(trouble):
            unexpected = not isinstance(trouble, McqueueError)
            log.warning("%s: round skipped: %s", self.name, reason_of(trouble), exc_info=unexpected)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()  # not joined: it may be waiting for an answer

    def stop(self) -> None:
        """Stop after the current round, and wait for its end."""
        self._stopped.set()
        if self.is_alive():
            self.join(timeout=10)

    @abc.abstractmethod
    def round(self) -> None:
        """Do the work of one round."""
