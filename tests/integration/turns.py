"""Whose turn it is in the queue."""

from __future__ import annotations

from celery import Celery

from contract import RedisLedger, Run, fair_share, keys
from contract.priority import Priority
from tests.integration.runs import QUEUE, messages_in, send
from tests.support import make_questions, open_run

__all__ = ["LIST", "sent", "take", "turns"]

LIST = keys.broker_lists(QUEUE)[2]


def sent(
    app: Celery,
    ledger: RedisLedger,
    name: str,
    questions: int,
    size: int = 4,
    weight: int = 1,
    priority: Priority = Priority.NORMAL,
) -> Run:
    """A run called `name` whose questions are on the queue in messages of `size`."""
    run = open_run(ledger, make_questions(questions), name=name)
    fair_share.weigh(ledger, run.run_id, weight)
    send(app, ledger, run, size, priority)
    return run


def turns(ledger: RedisLedger, count: int | None = None) -> str:
    """Whose messages are taken next: the first letters of their runs."""
    return "".join(message.run_id[0] for message in messages_in(ledger.client, LIST)[:count])


def take(ledger: RedisLedger, count: int) -> None:
    """Messages leave the queue as workers take them."""
    ledger.client.rpop(LIST, count)
