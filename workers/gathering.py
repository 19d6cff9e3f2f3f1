"""When a batch leaves: the rule of the aggregator, pure, with the clock passed in.

Items are weighed in questions. A batch leaves when `batch_size` questions wait, or when the oldest one has waited
`batch_timeout_s`, and in both cases only while fewer than `batches_in_flight` batches run. So an idle engine gets
small batches soon, and a busy one gets full batches.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

__all__ = ["Flush", "Gathered", "Gathering"]

T = TypeVar("T")
Flush = Literal["size", "timeout"]


@dataclass(frozen=True, slots=True)
class Gathered(Generic[T]):
    """A batch ready to leave."""

    items: list[T]
    questions: int
    flush: Flush
    #: How long its oldest item had waited.
    waited_s: float


@dataclass(slots=True)
class _Waiting(Generic[T]):
    item: T
    questions: int
    since_s: float


class Gathering(Generic[T]):
    """Items that wait for their batch, and the account of batches that run. Not thread-safe: one thread owns it."""

    def __init__(self, batch_size: int, batch_timeout_s: float, batches_in_flight: int) -> None:
        self.batch_size = batch_size
        self.batch_timeout_s = batch_timeout_s
        self.batches_in_flight = batches_in_flight
        self._waiting: deque[_Waiting[T]] = deque()
        self._waiting_questions = 0
        self._running_questions = 0
        self._running = 0
        self._largest = 1

    def add(self, item: T, questions: int, now_s: float) -> None:
        """Let `item` wait for its batch."""
        self._waiting.append(_Waiting(item, questions, now_s))
        self._waiting_questions += questions
        self._largest = max(self._largest, questions)

    def take(self, now_s: float) -> Gathered[T] | None:
        """The batch that leaves now, or None. The caller runs it and reports `done`."""
        if not self._waiting or self._running >= self.batches_in_flight:
            return None
        full = self._waiting_questions >= self.batch_size
        waited_s = now_s - self._waiting[0].since_s
        if not full and waited_s < self.batch_timeout_s:
            return None
        items, questions = self._pop_whole_messages()
        self._running += 1
        self._waiting_questions -= questions
        self._running_questions += questions
        return Gathered(items, questions, "size" if full else "timeout", waited_s)

    def done(self, questions: int) -> None:
        """A batch of so many questions has ended, well or not."""
        self._running -= 1
        self._running_questions -= questions

    def due_in_s(self, now_s: float) -> float | None:
        """Seconds until the oldest item's time is up; None if nothing waits, or no batch could leave anyway."""
        if not self._waiting or self._running >= self.batches_in_flight:
            return None
        return max(0.0, self._waiting[0].since_s + self.batch_timeout_s - now_s)

    def has_room(self) -> bool:
        """Whether to take more from the queue: enough for the batches that run and one to follow, and no more.

        What is held here is out of other workers' reach, and before every more urgent message.
        """
        return self._room() > 0

    def room_for_items(self) -> int:
        """How many more items that is, if they are as large as the largest so far: one at least while there is room."""
        return -(-self._room() // self._largest)

    def _room(self) -> int:
        held = self._waiting_questions + self._running_questions
        return max(0, (self.batches_in_flight + 1) * self.batch_size - held)

    def _pop_whole_messages(self) -> tuple[list[T], int]:
        """Items from the front, up to `batch_size` questions but at least one item."""
        items: list[T] = []
        questions = 0
        while self._waiting and (not items or questions + self._waiting[0].questions <= self.batch_size):
            first = self._waiting.popleft()
            items.append(first.item)
            questions += first.questions
        return items, questions
