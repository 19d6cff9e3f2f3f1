"""Says once when Redis goes away or refuses writes, when the reason becomes another one, and once when it is back.

Workers only wait meanwhile, which otherwise looks as if nothing were to do. A separate thread looks, because the
launcher must not block on an unavailable Redis.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Self

import redis

from contract.connection import connect, why_no_writes
from contract.errors import LedgerError
from contract.settings import Settings

__all__ = ["RedisWatch"]

LOOK_EVERY_S = 2.0


class RedisWatch(threading.Thread):
    """Looks at Redis as long as the block lasts."""

    def __init__(self, settings: Settings, say: Callable[[str], object]) -> None:
        super().__init__(name="redis-watch", daemon=True)
        self._settings = settings
        self._say = say
        self._client: redis.Redis | None = None
        self._away_since: float | None = None
        #: What was last said to be wrong.
        self._told: type[LedgerError] | None = None
        self._stopped = threading.Event()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stopped.set()  # not joined: it may be waiting for an answer

    def run(self) -> None:
        while not self._stopped.wait(LOOK_EVERY_S):
            began = time.monotonic()  # what fails may have waited long for an answer
            trouble = self._trouble()
            if self._stopped.is_set():
                return
            with suppress(OSError):  # as the launcher's own lines, where they cannot be written
                self._tell(trouble, began)

    def _trouble(self) -> LedgerError | None:
        try:
            self._client = self._client or connect(self._settings, retries=1)
            return why_no_writes(self._client, self._settings.redis_place)
        except LedgerError as trouble:
            return trouble

    def _tell(self, trouble: LedgerError | None, began: float) -> None:
        since = self._away_since
        self._away_since = (since or began) if trouble else None
        before, self._told = self._told, type(trouble) if trouble else None
        if trouble and self._told is not before:
            self._say(f"{trouble.message} Workers wait until it responds." if trouble.retryable else str(trouble))
        elif since is not None and not trouble:
            self._say(f"Redis is back after {time.monotonic() - since:.0f} s.")
