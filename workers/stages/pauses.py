"""Where failed questions wait for their next attempt, and when a worker pauses between batches."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable

from workers.retries import sleep_unless
from workers.stages.work import AGAIN, Endings

__all__ = ["RETRY_PAUSE_S", "Pauses"]

#: Pause after a batch that could not be worked on.
RETRY_PAUSE_S = 1.0


class Pauses:
    """The pauses of one worker, which holds at most `most_held` questions for another attempt. Thread-safe."""

    def __init__(self, most_held: int, stopping: Callable[[], bool]) -> None:
        self._most_held = most_held
        self._stopping = stopping
        #: Until when (monotonic clock), and how many: failed questions that are held for another attempt.
        self._held: list[tuple[float, int]] = []
        self._holding = threading.Lock()

    def choose(self, endings: Endings, retry_after_s: float) -> tuple[float, float]:
        """Return how long the worker pauses after a batch, and how long it holds the messages that are to be requeued.

        `retry_after_s` is how long a question whose attempt failed should wait for the next one; 0: no attempt failed.

        - Normally the messages are held for that long, while the worker goes on with others.
        - If several questions failed and none of the batch ended, or if many are held already, the fault may be the
          worker's. Then the worker pauses, so that it does not use up the attempts of all others.
        - If all questions were put off, they come back at once. Then the worker pauses for a moment.
        """
        again = Counter(endings.values())[AGAIN]
        if not again:
            return 0.0, 0.0
        others = len(endings) - again
        if not retry_after_s:
            return 0.0 if others else RETRY_PAUSE_S, 0.0
        if (others or again == 1) and self._hold(again, retry_after_s):
            return 0.0, retry_after_s
        return retry_after_s, 0.0

    def _hold(self, questions: int, pause_s: float) -> bool:
        """Hold `questions` more questions for `pause_s`; return False, and hold none of them, if these are too many."""
        now_s = time.monotonic()
        with self._holding:
            self._held = [(until_s, count) for until_s, count in self._held if until_s > now_s]
            if sum([count for _, count in self._held]) + questions > self._most_held:
                return False
            self._held.append((now_s + pause_s, questions))
            return True

    def take(self, seconds: float) -> None:
        """Pause before the next batch; ends early when the worker is stopping."""
        sleep_unless(self._stopping, seconds)
