"""Runs on their way: into the queue, to their end, and what came of them."""

from __future__ import annotations

import base64
import json
from typing import Any, NamedTuple, cast

import redis
from celery import Celery

from contract import RedisLedger, Run, Verdict, fair_share, keys
from contract.priority import Priority
from contract.queue import publish, queue_length, queued_batches
from tests.support import SIMULATED_MODEL, make_questions, open_run, wait_until

__all__ = [
    "QUEUE",
    "Message",
    "messages_in",
    "queued_question_ids",
    "send",
    "sent",
    "verdicts",
    "wait_acknowledged",
    "wait_finished",
]

#: Of the simulated engine's model.
QUEUE = keys.score_queue(SIMULATED_MODEL)


def send(app: Celery, ledger: RedisLedger, run: Run, batch_size: int = 4, priority: Priority = Priority.NORMAL) -> int:
    """The run's open questions to the queue; in how many messages."""
    queue, *_ = keys.route(run.spec)
    return publish(app, queue, run.run_id, ledger.unsettled(run.run_id), batch_size, priority)


def sent(
    app: Celery,
    ledger: RedisLedger,
    count: int,
    name: str = "test",
    *,
    batch_size: int = 4,
    priority: Priority = Priority.NORMAL,
    weight: int = 1,
) -> Run:
    """A run of so many questions that are on the queue."""
    run = open_run(ledger, make_questions(count), name=name)
    fair_share.weigh(ledger, run.run_id, weight)
    send(app, ledger, run, batch_size, priority)
    return run


def verdicts(ledger: RedisLedger, run: Run) -> list[Verdict]:
    """Those that there are, in the order of the questions."""
    return [verdict for _, verdict in ledger.results(run.run_id) if verdict is not None]


def wait_finished(ledger: RedisLedger, *runs: Run) -> None:
    """Return once every question of `runs` has its verdict."""
    ids = [run.run_id for run in runs]
    wait_until(lambda: all(ledger.counts(each).finished for each in ids), f"{ids} to finish")


def wait_acknowledged(ledger: RedisLedger, name: str = "w0@test") -> None:
    """Return once every message is acknowledged: neither on the queue nor held by the worker called `name`."""
    wait_until(
        lambda: queue_length(ledger.client, QUEUE) == 0 and not ledger.client.hlen(keys.unacked(name)),
        "every message to be acknowledged",
    )


def queued_question_ids(client: redis.Redis, queue: str, run_id: str) -> set[str]:
    """The question ids of the run in messages that wait on `queue`."""
    return {each for _, ids in queued_batches(client, queue, {run_id}) for each in ids}


class Message(NamedTuple):
    """A message as it lies in Redis."""

    headers: dict[str, Any]
    run_id: str
    ids: list[str]
    options: dict[str, Any]


def messages_in(client: redis.Redis, name: str) -> list[Message]:
    """Messages of one broker list, the next one to be taken first."""
    found = []
    for item in reversed(cast("list[str]", client.lrange(name, 0, -1))):
        body = json.loads(item)
        (run_id, ids), options, _ = json.loads(base64.b64decode(body["body"]))
        found.append(Message(body["headers"], run_id, ids, options))
    return found
