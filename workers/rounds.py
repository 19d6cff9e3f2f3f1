"""A background thread that does its work in rounds."""

from __future__ import annotations

import logging
import threading

from contract.errors import McqueueError
from workers.retries import reason_of

__all__ = ["Rounds"]

log = logging.getLogger(__name__)

ROUND_S = 2.0


class Rounds(threading.Thread):
    """A thread that calls `round` every two seconds until stopped, whatever it raises."""

    def __init__(self, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self._stopped = threading.Event()

    def run(self) -> None:
        while not self._stopped.wait(ROUND_S):
            try:
                self.round()
            except Exception as trouble:  # a failed round must not end the thread
                unexpected = not isinstance(trouble, McqueueError)
                log.warning("%s: round skipped: %s", self.name, reason_of(trouble), exc_info=unexpected)

    def stop(self) -> None:
        """Stop after the current round."""
        self._stopped.set()
        if self.is_alive():
            self.join(timeout=10)

    def round(self) -> None:
        """Do the work of one round."""
        raise NotImplementedError
