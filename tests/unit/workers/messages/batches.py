"""Batches as the aggregator would hand them over; what Celery does with a message's request is not looked at."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from contract import Run
from contract.errors import RedisUnreachable
from contract.priority import Priority
from contract.queue import MESSAGE_VERSION
from workers.messages.batch import Batch, HeldMessage

__all__ = ["PUBLISHED_AT", "away_at_first", "batch_of", "message", "unheard_at_first"]

PUBLISHED_AT = 7.0


def message(
    run: Run, *question_ids: str, priority: Priority = Priority.NORMAL, version: int = MESSAGE_VERSION
) -> HeldMessage:
    """A question batch of `run` in a worker's hands."""
    request = cast(Any, None)
    return HeldMessage(request, run.run_id, question_ids, PUBLISHED_AT, int(priority), version, arrived_at=0.0)


def batch_of(*held: HeldMessage, number: int = 1) -> Batch:
    """These messages, to be worked on together."""
    return Batch(number, list(held), sum(len(each.question_ids) for each in held), "size", 0.0)


def away_at_first(call: Callable[..., Any], times: int) -> Callable[..., Any]:
    """`call` of a ledger that is away for the first so many times."""
    refusals = iter([RedisUnreachable("away")] * times)

    def called(*arguments: Any, **named: Any) -> Any:
        for refusal in refusals:
            raise refusal
        return call(*arguments, **named)

    return called


def unheard_at_first(call: Callable[..., Any], times: int) -> Callable[..., Any]:
    """`call` of a ledger that executes it, but is away before it answers, for the first so many times."""
    refusals = iter([RedisUnreachable("away")] * times)

    def called(*arguments: Any, **named: Any) -> Any:
        answer = call(*arguments, **named)
        for refusal in refusals:
            raise refusal
        return answer

    return called
