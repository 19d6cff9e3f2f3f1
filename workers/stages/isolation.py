"""Who may ask the engine now: batches beside each other, or one suspected question alone.

If the worker dies while a suspect is under way, nothing else was, so no innocent question is blamed. Neither side waits
for ever: a suspect waits for the batches under way, and holds back all that come after it; once it is through, these
are let in together, before the next suspect.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from contract.errors import EngineDead

__all__ = ["Isolation"]


class Isolation:
    """The turns of one engine. Thread-safe. Once a turn ended with EngineDead, all later ones begin with it."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        #: Batches that are under way, and those that wait for a suspect.
        self._batches = 0
        self._waiting = 0
        #: Suspects that wait or are under way.
        self._suspects = 0
        self._alone = False
        #: Suspects that are through: each lets in who waits.
        self._through = 0
        self._dead = ""

    @property
    def wanted_alone(self) -> bool:
        """Whether a suspect is under way, or waits until it may be."""
        return self._suspects > 0

    @contextmanager
    def shared(self) -> Iterator[None]:
        """Beside other batches. Raises EngineDead."""
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
        """Beside nothing. Raises EngineDead."""
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
                self._batches, self._waiting = self._waiting, 0  # counted in here, so that no suspect is faster
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
