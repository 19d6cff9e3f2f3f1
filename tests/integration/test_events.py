"""The thread that sends task events: what it holds of Redis. What it sends is looked at in test_worker.py."""

from __future__ import annotations

from functools import partial
from typing import Any
from uuid import uuid4

import pytest
import redis
from celery import Celery
from celery.events.dispatcher import EventDispatcher

from contract.ledger.memory import MemoryLedger
from tests.support import make_questions, open_run, wait_until
from tests.unit.workers.messages.batches import batch_of, message
from workers.messages.batch import Batch, Settlement
from workers.monitoring import events


class Request:
    """As much of Celery's request as an event tells."""

    def __init__(self) -> None:
        self.id = str(uuid4())
        self.root_id = None


def batch() -> Batch:
    held = message(open_run(MemoryLedger(), make_questions(1)), "q0")
    held.request = Request()
    return batch_of(held)


def reached(found: list[Any], number: int) -> bool:
    return len(found) >= number


def test_a_publish_that_fails_leaves_no_connection_behind(
    app: Celery, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "EVERY_S", 0.0)
    failures: list[Any] = []

    def fail(self: EventDispatcher, *_: Any, **__: Any) -> None:
        failures.append(self.connection.default_channel.client.ping())  # it is connected by now
        raise OSError("connection reset")

    sender = events.BatchEvents(app, "w@host", "score")
    before = len(client.client_list())
    monkeypatch.setattr(EventDispatcher, "flush", fail)
    for number in range(1, 6):
        sender.started(batch())
        wait_until(partial(reached, failures, number), "the publish")
    sender.close()
    wait_until(lambda: len(client.client_list()) == before, "its connections to be closed")


def test_of_a_message_that_goes_back_to_the_queue_it_is_told_that_it_is_tried_again_and_why(
    app: Celery, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[str, str]] = []

    def send(_: EventDispatcher, kind: str, **fields: Any) -> None:
        told.append((kind, fields.get("exception") or fields["result"]))

    monkeypatch.setattr(EventDispatcher, "send", send)
    (done,), (back,) = batch().held, batch().held
    done.settlement, done.summary = Settlement.ACKNOWLEDGE, "1 correct"
    fatal = batch_of(back)
    fatal.fatal = "The engine has ended."
    sender = events.BatchEvents(app, "w@host", "score")
    sender.ended(batch_of(done, back))
    sender.ended(fatal)
    wait_until(partial(reached, told, 3), "what became of all")
    sender.close()
    assert told == [
        ("task-succeeded", "1 correct"),
        ("task-retried", "requeued"),
        ("task-retried", "The engine has ended."),
    ]


def test_who_ran_no_batch_does_not_connect_when_it_ends(app: Celery, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[object] = []
    monkeypatch.setattr(Celery, "connection_for_write", lambda *_, **more: made.append(more))
    events.BatchEvents(app, "w@host", "score").close()
    assert made == []
