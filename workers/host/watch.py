"""A thread of the launcher that looks at Redis every two seconds: the launcher itself must not block on it."""

from __future__ import annotations

import abc
import threading
from types import TracebackType
from typing import Self

__all__ = ["Watch"]

LOOK_EVERY_S = 2.0


class Watch(threading.Thread, abc.ABC):
    """Looks as long as the block lasts."""

    def __init__(self, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self._stopped = threading.Event()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stopped.set()  # not joined: it may be waiting for an answer

    def run(self) -> None:
        while not self._stopped.wait(LOOK_EVERY_S):
            self.look()

    @abc.abstractmethod
    def look(self) -> None:
        """Look once; must not raise."""
