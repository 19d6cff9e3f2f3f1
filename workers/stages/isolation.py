"""Readers-writer lock around the engine: batches share it, a suspected question gets it alone.

If the worker dies while a suspect runs, nothing else was running, so no innocent question is blamed. Neither side
starves: a suspect waits for the running batches, and blocks all that come after it; when it is done, these are admitted
together, before the next suspect.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from contract.errors import EngineDead

__all__ = ["Isolation"]


class Isolation:
    """The lock around one engine. Thread-safe. Once a holder raised EngineDead, all later ones get it at entry."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._batches_running = 0
        #: Batches that wait for a suspect.
        self._batches_waiting = 0
        #: Suspects, waiting or running.
        self._suspects = 0
        self._suspect_runs = False
        #: Each suspect that is done admits the waiting batches.
        self._suspects_done = 0
        #: Why the engine is dead; empty: it is not.
        self._dead = ""

    @property
    def wanted_alone(self) -> bool:
        """Whether a suspect is running or waiting."""
        return self._suspects > 0

    @contextmanager
    def shared(self) -> Iterator[None]:
        """Hold the engine beside other batches. Raises EngineDead."""
        with self._changed:
            if self._suspects:
                self._batches_waiting += 1
                done_before = self._suspects_done
                self._changed.wait_for(lambda: self._suspects_done != done_before)
            else:
                self._batches_running += 1
        try:
            with self._alive():
                yield
        finally:
            with self._changed:
                self._batches_running -= 1
                self._changed.notify_all()

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Hold the engine alone. Raises EngineDead."""
        with self._changed:
            self._suspects += 1
            self._changed.wait_for(lambda: not (self._batches_running or self._suspect_runs))
            self._suspect_runs = True
        try:
            with self._alive():
                yield
        finally:
            with self._changed:
                self._suspect_runs = False
                self._suspects -= 1
                self._suspects_done += 1
                # Counted as running here and not by their own threads: the next suspect could get ahead of these.
                self._batches_running, self._batches_waiting = self._batches_waiting, 0
                self._changed.notify_all()

    @contextmanager
    def _alive(self) -> Iterator[None]:
        if self._dead:
            raise EngineDead(self._dead)
        try:
            yield
        except EngineDead as trouble:
            self._dead = str(trouble)
            raise
