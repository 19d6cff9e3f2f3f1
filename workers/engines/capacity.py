"""Detection of spare engine capacity: sequence slots stay full while texts finish one by one, and steps stay full
while prompts are prefilled."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from workers.engines.prefill import Prefill

__all__ = ["Capacity", "Demand"]

#: Wait before announcing room again: the caller notified last may have had nothing left to submit.
PATIENCE_S = 1.0
#: Steps' worth of prefill-only tokens to keep in the engine: the running step and the next one.
STEPS_AHEAD = 2
#: Weight of the newest prefill in the running mean of the uncached share: the mean follows within about a batch.
NEWEST = 1 / 64


class Capacity:
    """Tracks demand for an engine's slots and announces room for another call. Thread-safe.

    There is room while demand is below 125 % of the slots, because the next call takes a moment to arrive. Room is
    announced at most once until the next call has arrived, since that call may fill it.
    """

    def __init__(self, slots: int, room_came: Callable[[], object], now: Callable[[], float] = time.monotonic) -> None:
        self._enough = slots * 5 // 4
        self._room_came = room_came
        self._now = now
        self._wanted = 0
        self._quiet_until_s = float("-inf")
        self._lock = threading.Lock()

    def want(self, slots: int) -> None:
        """Record a new call that wants `slots` slots."""
        with self._lock:
            self._wanted += slots
            self._quiet_until_s = float("-inf")
        self._tell()

    def leave(self, slots: int = 1) -> None:
        """Record that `slots` slots are no longer wanted."""
        with self._lock:
            self._wanted -= slots
        self._tell()

    def _tell(self) -> None:
        with self._lock:
            if self._wanted >= self._enough or (now_s := self._now()) < self._quiet_until_s:
                return
            self._quiet_until_s = now_s + PATIENCE_S
        self._room_came()


class Demand:
    """Estimates how many of an engine's slots a prefill wants. Not thread-safe.

    A generated text occupies one slot until it ends. A prefill without decoding leaves after its step, so it wants the
    share of the slots that its tokens are of the steps' token budget: an engine may have far more slots than a step
    has prompts. Cached tokens are not computed; their share is estimated from recent prefills.
    """

    def __init__(self, slots: int, tokens_per_step: int) -> None:
        self._tokens_per_slot = STEPS_AHEAD * tokens_per_step / slots
        #: Running mean of the share of a prefill's tokens that is not cached.
        self._computed = 1.0

    def of(self, prefill: Prefill) -> int:
        """Return the number of slots that `prefill` wants."""
        if prefill.generate is not None:
            return prefill.generate.sampling.samples
        return max(1, round(self._computed * len(prefill.token_ids) / self._tokens_per_slot))

    def prefilled(self, prefill: Prefill, cached_tokens: int) -> None:
        """Record that `prefill` is done and took `cached_tokens` of its tokens from the cache."""
        self._computed += NEWEST * (1 - cached_tokens / len(prefill.token_ids) - self._computed)
