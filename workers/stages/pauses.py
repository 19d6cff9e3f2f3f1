"""Where failed questions wait for their next attempt, and when a worker pauses between batches."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable

from workers.messages.batch import Batch
from workers.stages.work import AGAIN, Endings

__all__ = ["RETRY_PAUSE_S", "Pauses"]

RETRY_PAUSE_S = 1.0


class Pauses:
    """The pauses of one worker, which holds at most `most_held` questions for another attempt. Thread-safe."""

    def __init__(self, most_held: int, stopping: Callable[[], bool]) -> None:
        self._most_held = most_held
        self._stopping = stopping
        #: Until when (monotonic clock), and how many: failed questions that are held for another attempt.
        self._held: list[tuple[float, int]] = []
        self._holding = threading.Lock()

    def choose(self, batch: Batch, endings: Endings, *, did_something: bool) -> None:
        """Decide how questions to be retried wait: their messages are held while others go on, or the worker pauses.

        It pauses if several failed together and nothing else was done, or if many are held already: nothing may be
        wrong with them, and others would only use up their attempts, too. It also pauses after a batch that was put
        off, which would come back at once.
        """
        failed = Counter(endings.values())[AGAIN] if batch.requeue_after_s else 0
        if did_something and not failed:
            return
        if (did_something or failed == 1) and self._can_hold(failed, batch.requeue_after_s):
            return
        batch.pause_s, batch.requeue_after_s = max(batch.requeue_after_s, RETRY_PAUSE_S), 0.0

    def _can_hold(self, questions: int, pause_s: float) -> bool:
        """Hold so many more questions for `pause_s`, unless that is too many; return whether they are held."""
        now_s = time.monotonic()
        with self._holding:
            self._held = [(until_s, count) for until_s, count in self._held if until_s > now_s]
            if sum([count for _, count in self._held]) + questions > self._most_held:
                return False
            self._held.append((now_s + pause_s, questions))
            return True

    def take(self, seconds: float) -> None:
        """Pause before the next batch; ends early when the worker is stopping."""
        until = time.monotonic() + seconds
        while (left_s := until - time.monotonic()) > 0 and not self._stopping():
            time.sleep(min(0.1, left_s))
