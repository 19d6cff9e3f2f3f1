"""A batch and its messages: passed from the aggregator to a stage, which sets how each message is settled."""

from __future__ import annotations

import enum
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from workers.messages.batching import Flush

if TYPE_CHECKING:
    from celery.worker.request import Request

__all__ = ["Batch", "HeldMessage", "Settlement"]


class Settlement(enum.Enum):
    """How a message is settled after its batch."""

    ACKNOWLEDGE = "acknowledge"
    REQUEUE = "requeue"


@dataclass(slots=True)
class HeldMessage:
    """A received, unacknowledged message: a question batch."""

    request: Request
    run_id: str
    question_ids: Sequence[str]
    published_at: float
    priority: int
    version: int
    arrived_at: float
    settlement: Settlement = Settlement.REQUEUE
    #: One-line result for Flower.
    summary: str = ""


@dataclass(slots=True)
class Batch:
    """Messages that are processed together in one generate call, and what came of it.

    `run_batch` sets `begun`, `fatal`, `retry_after_s` and `requeue_after_s`.
    """

    number: int
    held: list[HeldMessage]
    questions: int
    flush: Flush
    waited_s: float
    #: Number of questions that were begun. The others were settled, put off, or of a halted run.
    begun: int = 0
    #: Reason why this worker cannot continue.
    fatal: str = ""
    #: Longest pause that a question needs before its next attempt; 0: no attempt failed.
    retry_after_s: float = 0.0
    #: How long messages are held before they are requeued: after that, they are redelivered at once.
    requeue_after_s: float = 0.0
    #: When it was dispatched: in seconds since the epoch, and by the monotonic clock.
    started_at: float = field(default_factory=time.time, init=False)
    _started_s: float = field(default_factory=time.monotonic, init=False)

    def took_s(self) -> float:
        """Return the seconds since it was dispatched, also where the system's clock was set meanwhile."""
        return time.monotonic() - self._started_s
