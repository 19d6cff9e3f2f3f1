"""Rate limit in requests per minute, evenly spaced and shared by all threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

__all__ = ["RateLimiter"]


class RateLimiter:
    """Lets `per_minute` callers through per minute; 0 means no limit. Thread-safe."""

    def __init__(
        self,
        per_minute: float,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._interval_s = 60 / per_minute if per_minute else 0.0
        self._now, self._sleep = now, sleep
        self._lock = threading.Lock()
        self._next_at = 0.0

    def wait(self) -> None:
        """Block until it is the caller's turn."""
        if not self._interval_s:
            return
        with self._lock:
            turn_at = max(self._now(), self._next_at)
            self._next_at = turn_at + self._interval_s
        if (pause_s := turn_at - self._now()) > 0:
            self._sleep(pause_s)
