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
        #: Running batches, and batches waiting for a suspect.
        self._batches = 0
        self._waiting = 0
        #: Suspects waiting or running.
        self._suspects = 0
        self._alone = False
        #: Suspects that are done: each admits the waiting batches.
        self._through = 0
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
                self._waiting += 1
                through = self._through
                self._changed.wait_for(lambda: self._through != through)
            else:
                self._batches += 1
        try:
            with self._alive():
                yield
        finally:
            with self._changed:
                self._batches -= 1
                self._changed.notify_all()

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Hold the engine alone. Raises EngineDead."""
        with self._changed:
            self._suspects += 1
            self._changed.wait_for(lambda: not (self._batches or self._alone))
            self._alone = True
        try:
            with self._alive():
                yield
        finally:
            with self._changed:
                self._alone = False
                self._suspects -= 1
                self._through += 1
                self._batches, self._waiting = self._waiting, 0  # admitted here, so that no suspect gets ahead
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
