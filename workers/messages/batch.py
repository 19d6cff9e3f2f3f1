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
    """Messages that are processed together in one generate call."""

    number: int
    held: list[HeldMessage]
    questions: int
    flush: Flush
    waited_s: float
    #: Number of questions that were begun; set by `run_batch`. The others were settled, put off, or of a halted run.
    begun: int = 0
    #: Reason why this worker cannot continue; set by `run_batch`.
    fatal: str = ""
    #: How long `run_batch` pauses because nothing could be done.
    pause_s: float = 0.0
    #: How long messages to be requeued are held before, as they are redelivered at once; set by `run_batch`.
    requeue_after_s: float = 0.0
    #: When it was dispatched: in seconds since the epoch, and by the monotonic clock.
    started_at: float = field(default_factory=time.time, init=False)
    _started_s: float = field(default_factory=time.monotonic, init=False)

    def took_s(self) -> float:
        """Return the seconds since it was dispatched, also where the system's clock was set meanwhile."""
        return time.monotonic() - self._started_s
