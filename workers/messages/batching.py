"""The aggregator's batching policy: when a batch is dispatched. Pure, with the clock passed in.

Sizes are counted in questions. A batch is dispatched when `batch_size` questions wait, or when the oldest one has
waited `batch_timeout_s`, and in both cases only while fewer than `batches_in_flight` batches run. So an idle engine
gets small batches soon, and a busy one gets full batches. What somebody waits for leaves at once if no batch runs;
those who come while one runs share the next.

A batch ends with its longest text, long after most of its questions. So an engine that reports free capacity gets one
more batch, up to `max_batches_in_flight`.

When several workers share a queue and it runs low, each takes one batch at a time, and only what can start at once:
what waits in one worker could have been started by another.

More urgent items are dispatched first. To receive them, what is less urgent and already held does not count, so that
they are in the next batch.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

__all__ = ["Flush", "Gathered", "Gathering"]

#: A message that is yet to be received is assumed to be as large as the largest of this many latest ones.
RECENT_ITEMS = 64

T = TypeVar("T")
Flush = Literal["size", "timeout", "idle"]


@dataclass(frozen=True, slots=True)
class Gathered(Generic[T]):
    """A batch ready to be dispatched."""

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
    awaited: bool


class Gathering(Generic[T]):
    """The items waiting for a batch, and the running batches. Not thread-safe: owned by one thread."""

    def __init__(
        self, batch_size: int, batch_timeout_s: float, batches_in_flight: int, max_batches_in_flight: int
    ) -> None:
        self.batch_size = batch_size
        self.batch_timeout_s = batch_timeout_s
        self.batches_in_flight = batches_in_flight
        self.max_batches_in_flight = max_batches_in_flight
        #: By priority; the smallest is the most urgent.
        self._waiting: defaultdict[int, deque[_Waiting[T]]] = defaultdict(deque)
        self._waiting_questions: Counter[int] = Counter()
        #: Number of waiting items that somebody waits for.
        self._awaited = 0
        self._running_questions = 0
        self._running = 0
        self._engine_has_room = False
        self._recent_sizes = deque([1], maxlen=RECENT_ITEMS)
        self._largest_recent = 1
        self._queue_is_short = False
        self._queue_fills_a_batch = False

    def add(self, item: T, questions: int, now_s: float, priority: int = 0, *, awaited: bool = False) -> None:
        """Add a waiting item, for which somebody waits if it is `awaited`. A smaller `priority` is more urgent."""
        self._waiting[priority].append(_Waiting(item, questions, now_s, awaited))
        self._awaited += awaited
        self._waiting_questions[priority] += questions
        self._recent_sizes.append(questions)
        self._largest_recent = max(self._recent_sizes)

    def take(self, now_s: float) -> Gathered[T] | None:
        """Return the batch to dispatch now, or None. The caller runs it and then calls `done`."""
        oldest_s = self._oldest_s()
        if oldest_s is None or not self._may_begin():
            return None
        full = self._waiting_questions.total() >= self.batch_size
        waited_s = now_s - oldest_s
        at_once = self._awaited and not self._running
        if not full and not at_once and waited_s < self.batch_timeout_s:
            return None
        items, questions = self._pop_whole_messages()
        self._running += 1
        self._engine_has_room = False  # it reports again if capacity is left after this batch
        self._running_questions += questions
        flush: Flush = "size" if full else "timeout" if waited_s >= self.batch_timeout_s else "idle"
        return Gathered(items, questions, flush, waited_s)

    def done(self, questions: int) -> None:
        """Record the end of a batch with this many questions, successful or not."""
        self._running -= 1
        self._running_questions -= questions

    def room_came(self) -> None:
        """Record that the engine has capacity for one more batch beside the running ones."""
        self._engine_has_room = True

    def due_in_s(self, now_s: float) -> float | None:
        """Return the seconds until the oldest item times out; None if nothing waits or no batch may start."""
        oldest_s = self._oldest_s()
        if oldest_s is None or not self._may_begin():
            return None
        return max(0.0, oldest_s + self.batch_timeout_s - now_s)

    def has_room(self) -> bool:
        """Whether to take more from the queue, even if only the most urgent items."""
        return self.room_for_items() > 0

    def room_for_items(self, priority: int = 0) -> int:
        """Return how many more items of this priority to take, assuming the size of the largest recent one.

        They are to fill the running batches and the next one, and no more: other workers cannot get what is held here.
        While there is room for a single question, that is one item. Items that are less urgent do not count as waiting.
        An item may be larger than `batch_size`, and is a batch by itself then: all batches are assumed to be as large.
        """
        waiting = sum(questions for of, questions in self._waiting_questions.items() if of <= priority)
        # One batch ahead of those that may run. It is left to other workers if the queue is short but still fills one.
        ahead = 0 if self._queue_is_short and self._queue_fills_a_batch else 1
        batches = max(self.batches_in_flight, self._running + self._takes_one_more()) + ahead
        room = batches * self._largest_batch() - waiting - self._running_questions
        if self._queue_is_short:  # batch by batch
            room = min(room, self._largest_batch() - waiting)
        return -(-max(0, room) // self._largest_recent)  # items, rounded up

    def left_waiting(self, items: int, other_workers: int) -> None:
        """Record how many items are left in the queue, and how many other workers share it.

        The queue is short if all workers together could hold more than that. If it has less than a batch left, that is
        still held here: other workers would also have to wait for the timeout before they can start it.
        """
        questions = items * self._largest_recent
        all_can_hold = (1 + other_workers) * (self.batches_in_flight + 1) * self._largest_batch()
        self._queue_is_short = other_workers > 0 and questions < all_can_hold
        self._queue_fills_a_batch = questions >= self.batch_size

    def _largest_batch(self) -> int:
        return max(self.batch_size, self._largest_recent)

    def _may_begin(self) -> bool:
        return self._running < self.batches_in_flight or self._takes_one_more()

    def _takes_one_more(self) -> bool:
        return self._engine_has_room and self._running < self.max_batches_in_flight

    def _oldest_s(self) -> float | None:
        return min((queue[0].since_s for queue in self._waiting.values() if queue), default=None)

    def _pop_whole_messages(self) -> tuple[list[T], int]:
        """Remove and return the most urgent items, up to `batch_size` questions but at least one item."""
        items: list[T] = []
        total = 0
        for priority, queue in sorted(self._waiting.items()):
            while queue:
                first = queue[0]
                if items and total + first.questions > self.batch_size:
                    return items, total
                queue.popleft()
                self._waiting_questions[priority] -= first.questions
                self._awaited -= first.awaited
                items.append(first.item)
                total += first.questions
        return items, total
