"""Says once when Redis goes away or refuses writes, again if the reason changes, and once when it is back.

Workers only wait meanwhile, which otherwise looks as if nothing were to do.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress

import redis

from contract.connection import connect, why_no_writes
from contract.errors import LedgerError
from contract.settings import Settings
from workers.rounds import Rounds

__all__ = ["RedisWatch"]


class RedisWatch(Rounds):
    """Looks at Redis as long as the block lasts."""

    def __init__(self, settings: Settings, say: Callable[[str], object]) -> None:
        super().__init__("redis-watch")
        self._settings = settings
        self._say = say
        self._client: redis.Redis | None = None
        self._away_since: float | None = None
        #: What was last said to be wrong: the kind of error, and the remedy, as one kind may have several reasons. Not
        #: the message, of which a part may change with every attempt.
        self._told: tuple[type[LedgerError], str] | None = None

    def round(self) -> None:
        """Look once, and say what has changed."""
        began = time.monotonic()  # what fails may have waited long for an answer
        trouble = self._what_is_wrong()
        if self._stopped.is_set():
            return
        with suppress(OSError):  # it cannot be written, as on a full disk: the launcher goes on all the same
            self._tell(trouble, began)

    def _what_is_wrong(self) -> LedgerError | None:
        try:
            self._client = self._client or connect(self._settings, retries=1)
            return why_no_writes(self._client)
        except LedgerError as trouble:
            return trouble

    def _tell(self, trouble: LedgerError | None, began: float) -> None:
        since = self._away_since
        self._away_since = (since or began) if trouble else None
        before, self._told = self._told, (type(trouble), trouble.hint) if trouble else None
        if trouble and self._told != before:
            self._say(f"{trouble.message} Workers wait until it responds." if trouble.retryable else str(trouble))
        elif since is not None and not trouble:
            self._say(f"Redis is back after {time.monotonic() - since:.0f} s.")
