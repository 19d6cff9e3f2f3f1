"""A batch, and the messages in it: what the aggregator hands to a stage, and what the stage says of each."""

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
    """What becomes of a message after its batch."""

    ACKNOWLEDGE = "acknowledge"
    REQUEUE = "requeue"


@dataclass(slots=True)
class HeldMessage:
    """A message in this worker's hands: a question batch."""

    request: Request
    run_id: str
    question_ids: Sequence[str]
    published_at: float
    priority: int
    version: int
    arrived_at: float
    settlement: Settlement = Settlement.REQUEUE
    #: One line for Flower.
    summary: str = ""


@dataclass(slots=True)
class Batch:
    """Messages that go into one generate call together."""

    number: int
    held: list[HeldMessage]
    questions: int
    flush: Flush
    waited_s: float
    #: Set by `run_batch` when this worker cannot go on.
    fatal: str = ""
    #: How long `run_batch` rested, as some of its messages go back to the queue.
    pause_s: float = 0.0
    started_at: float = field(default_factory=time.time)
