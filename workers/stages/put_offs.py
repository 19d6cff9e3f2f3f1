"""Runs that a worker cannot serve at the moment, so that it requeues their questions. Shown to those who wait."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from workers.stages.work import AGAIN, Endings

__all__ = ["PutOffs"]

log = logging.getLogger(__name__)

#: A run counts as put off for this long after its last message: another worker may have taken the rest. Longer while a
#: batch runs that began before that, as this worker may have taken none since.
PUT_OFF_S = 60.0


class _PutOff(NamedTuple):
    why: str
    #: When questions of the run were last requeued, by the monotonic clock.
    at: float
    #: Whether it was begun since. It may be put off again at once, for the same reason.
    begun: bool = False


class PutOffs:
    """The runs that one worker puts off. Thread-safe."""

    def __init__(self) -> None:
        self._runs: dict[str, _PutOff] = {}
        self._running = 0
        #: When the latest batch began.
        self._began_at = 0.0
        self._changing = threading.Lock()

    @property
    def current(self) -> dict[str, str]:
        """Run → why this worker currently requeues its questions."""
        return {run_id: each.why for run_id, each in self._recent().items() if not each.begun}

    def _recent(self) -> dict[str, _PutOff]:
        until = self._began_at if self._running else time.monotonic()
        return {run_id: each for run_id, each in list(self._runs.items()) if until <= each.at + PUT_OFF_S}

    @contextmanager
    def during_batch(self) -> Iterator[None]:
        """Note that a batch runs in the block."""
        with self._changing:
            self._running, self._began_at = self._running + 1, time.monotonic()
        try:
            yield
        finally:
            with self._changing:
                self._running -= 1

    def add(self, run_id: str, question_ids: Iterable[str], why: str) -> Endings:
        """Note that the run is put off, and why; return the endings of these questions, whose messages are requeued."""
        with self._changing:
            recent = self._recent()  # without those that other workers have finished
            self._runs = recent | {run_id: _PutOff(why, time.monotonic())}
        if run_id not in recent or recent[run_id].why != why:
            log.warning("run %s is put off: %s", run_id, why)
        return {(run_id, each): AGAIN for each in question_ids}

    def end(self, run_id: str) -> None:
        """Note that the run is served again, or no more."""
        with self._changing:
            if run_id in self._runs:
                self._runs[run_id] = self._runs[run_id]._replace(begun=True)
