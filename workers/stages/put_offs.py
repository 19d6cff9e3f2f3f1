"""Runs that a worker cannot serve at the moment, so that it requeues their questions. Shown to those who wait."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable

from workers.stages.work import AGAIN, Endings

__all__ = ["PutOffs"]

log = logging.getLogger(__name__)

#: A run counts as put off for this long after its last message: another worker may have taken the rest.
PUT_OFF_S = 60.0


class PutOffs:
    """The runs that one worker puts off. Thread-safe."""

    def __init__(self) -> None:
        #: Run → why, and when (monotonic clock) its questions were last requeued.
        self._runs: dict[str, tuple[str, float]] = {}

    @property
    def current(self) -> dict[str, str]:
        """Run → why this worker currently requeues its questions."""
        since = time.monotonic() - PUT_OFF_S
        return {run_id: why for run_id, (why, at) in list(self._runs.items()) if at >= since}

    def add(self, run_id: str, question_ids: Iterable[str], why: str) -> Endings:
        """Requeue the questions' messages for another worker, or this one later; return their endings."""
        current = self.current
        if current.get(run_id) != why:
            log.warning("run %s is put off: %s", run_id, why)
        for gone in set(self._runs) - current.keys():  # other workers have finished them
            self._runs.pop(gone, None)
        self._runs[run_id] = why, time.monotonic()
        return {(run_id, each): AGAIN for each in question_ids}

    def end(self, run_id: str) -> None:
        """Note that the run is served again, or no more."""
        self._runs.pop(run_id, None)
