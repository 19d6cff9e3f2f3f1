"""When an engine could take another call: so that its places stay full while texts end one by one, and its steps while
prompts are prefilled."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from workers.engines.prefill_plan import Prefill

__all__ = ["Capacity", "Demand"]

#: A call that was told to come and has nothing left to ask never comes; after this long another is told.
PATIENCE_S = 1.0
#: Steps' worth of tokens that are kept in the engine of what is only prefilled: the step that runs, and the next.
STEPS_AHEAD = 2
#: Weight of the newest prefill in the running mean of the share that is computed: after a batch, the mean follows.
NEWEST = 1 / 64


class Capacity:
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
        """A call has come that wants so many places."""
        with self._lock:
            self._wanted += places
            self._quiet_until_s = float("-inf")
        self._tell()

    def leave(self, places: int = 1) -> None:
        """So many places are wanted no more."""
        with self._lock:
            self._wanted -= places
        self._tell()

    def _tell(self) -> None:
        with self._lock:
            if self._wanted >= self._enough or (now_s := self._now()) < self._quiet_until_s:
                return
            self._quiet_until_s = now_s + PATIENCE_S
        self._room_came()


class Demand:
    """How many of an engine's places a prefill wants. For one thread.

    A text wants one of its own till it ends. What is only prefilled leaves with its step, and wants as large a share of
    the places as its tokens are of what steps compute: an engine may have many more places than a step has prompts.
    Tokens that the cache has are not computed; how many these will be is estimated by what was prefilled last.
    """

    def __init__(self, places: int, tokens_per_step: int) -> None:
        self._tokens_per_place = STEPS_AHEAD * tokens_per_step / places
        #: Share of a prefill's tokens that the cache does not have, lately.
        self._computed = 1.0

    def of(self, prefill: Prefill) -> int:
        """The places that `prefill` wants."""
        if prefill.generate is not None:
            return prefill.generate.sampling.samples
        return max(1, round(self._computed * len(prefill.token_ids) / self._tokens_per_place))

    def prefilled(self, prefill: Prefill, cached_tokens: int) -> None:
        """`prefill` is done, and had so many of its tokens from the cache."""
        self._computed += NEWEST * (1 - cached_tokens / len(prefill.token_ids) - self._computed)
