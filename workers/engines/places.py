"""When an engine could take another call: so that its places stay full while texts end one by one."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

__all__ = ["Places"]

#: A call that was told to come and has nothing left to ask never comes; after this long another is told.
PATIENCE_S = 1.0


class Places:
    """Counts who wants an engine's places, and tells of room for a call. Thread-safe.

    There is room while fewer than its places and a quarter more are wanted: the next call takes a moment to come. It is
    told at most once until the next call has come, as that one may be enough.
    """

    def __init__(self, places: int, room_came: Callable[[], object], now: Callable[[], float] = time.monotonic) -> None:
        self._enough = places * 5 // 4
        self._room_came = room_came
        self._now = now
        self._wanted = 0
        self._quiet_until_s = float("-inf")
        self._lock = threading.Lock()

    def want(self, places: int) -> None:
        """A call has come that wants so many."""
        with self._lock:
            self._wanted += places
            self._quiet_until_s = float("-inf")
        self._tell()

    def leave(self, places: int = 1) -> None:
        """So many are wanted no more."""
        with self._lock:
            self._wanted -= places
        self._tell()

    def _tell(self) -> None:
        with self._lock:
            if self._wanted >= self._enough or (now_s := self._now()) < self._quiet_until_s:
                return
            self._quiet_until_s = now_s + PATIENCE_S
        self._room_came()
