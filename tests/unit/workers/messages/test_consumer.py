"""Messages that Celery would crash on: each is refused once, and the worker goes on with the others."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest
from celery import bootsteps
from celery.worker import state
from kombu.transport.virtual import Message

from contract import load_settings
from contract.queue import MESSAGE_VERSION, make_celery
from tests.support import SIMULATED_MODEL
from workers.messages.aggregator import Aggregator
from workers.messages.batch import Batch
from workers.messages.consumer import Consumer
from workers.messages.transport import FOR_WRITING

SETTINGS = load_settings(None, ["engine=simulated", f"model={SIMULATED_MODEL}", "batch_size=1"])
TASK = "mcqueue.score"


class Channel:
    """As much of a broker's channel as a message uses."""

    no_ack_consumers = None

    def __init__(self) -> None:
        self.qos = SimpleNamespace(take_over=lambda _: None)
        #: Tags of messages that were refused, and acknowledged.
        self.refused: list[str] = []
        self.acknowledged: list[str] = []

    def message_to_python(self, message: Any) -> Any:
        return message

    def decode_body(self, body: Any, encoding: str | None = None) -> Any:
        return base64.b64decode(body) if encoding == "base64" else body

    def basic_reject(self, tag: str, requeue: bool) -> None:
        assert not requeue, "it would come again and again"
        self.refused.append(tag)

    def basic_ack(self, tag: str, **_: object) -> None:
        self.acknowledged.append(tag)


class Stand:
    """Celery's consumer, ours, with the aggregator behind it."""

    def __init__(self) -> None:
        self.channel = Channel()
        self.batches: list[Batch] = []
        app = make_celery(SETTINGS)

        class Task(Aggregator):
            name = TASK
            settings = SETTINGS

        task = app.register_task(Task())
        pool = SimpleNamespace(limit=1000, num_processes=1, is_green=False, apply_async=self._start)
        timer = SimpleNamespace(call_repeatedly=lambda *_: None, call_after=lambda *_: None)
        celery = SimpleNamespace(use_eventloop=True)
        self.consumer = Consumer(lambda _: None, app=app, pool=pool, timer=timer, hostname="w0@test", controller=celery)
        self.consumer.blueprint.state = bootsteps.RUN
        self.consumer.connection = SimpleNamespace(default_channel=self.channel)
        self.consumer.strategies = {TASK: task.Strategy(task, app, self.consumer)}
        self.consumer.event_dispatcher = None
        self.handle: Callable[[Any], None] = self.consumer.create_task_handler()

    def _start(self, _: object, batch: tuple[Batch], **__: object) -> None:
        self.batches.extend(batch)

    def receive(self, number: int, wound: Callable[[dict[str, Any]], object]) -> None:
        body = [["run", [f"q{number}"]], {"version": MESSAGE_VERSION, "published_at": 1.0}, {}]
        raw: dict[str, Any] = {
            "body": base64.b64encode(json.dumps(body).encode()).decode(),
            "content-type": "application/json",
            "content-encoding": "utf-8",
            "headers": {"id": f"id{number}", "task": TASK},
            "properties": {
                "delivery_tag": f"tag{number}",
                "body_encoding": "base64",
                "priority": 6,
                "delivery_info": {},
            },
        }
        wound(raw)
        message = Message(raw, channel=self.channel, accept={"application/json"})
        if message.errors:  # as kombu does
            message._reraise_error(self.consumer.on_decode_error)
        else:
            self.handle(message)


@pytest.fixture
def stand() -> Iterator[Stand]:
    yield Stand()
    state.requests.clear()
    state.reserved_requests.clear()
    state.active_requests.clear()


def with_header(name: str, value: Any) -> Callable[[dict[str, Any]], object]:
    return lambda raw: raw["headers"].update({name: value})


def with_body(content: Any) -> Callable[[dict[str, Any]], object]:
    return lambda raw: raw.update(body=base64.b64encode(json.dumps(content).encode()).decode())


def undecodable(raw: dict[str, Any]) -> None:
    """With a body that Celery cannot even report as one that cannot be decoded."""
    raw.update(body=7, headers={**raw["headers"], "compression": "zlib"})
    raw["properties"]["body_encoding"] = None


WOUNDS: dict[str, Callable[[dict[str, Any]], object]] = {
    "no id": lambda raw: raw["headers"].pop("id"),
    "an id that is a list": with_header("id", ["x"]),
    "a task of others": with_header("task", "os.system"),
    "a task of others and no id": lambda raw: raw.update(headers={"task": "os.system"}),
    "a task that is a list": with_header("task", ["x"]),
    "an odd time to begin at": with_header("eta", "x"),
    "an odd time to end at": with_header("expires", 10**400),
    "a body of two parts": with_body([[], {}]),
    "a body that is a number": with_body(7),
    "arguments that are a number": with_body([7, {}, {}]),
    "no arguments": with_body([[], {}, {}]),
    "nested too deeply": lambda raw: raw.update(body=base64.b64encode(b"[" * 100_000).decode()),
    "a body that is no JSON": lambda raw: raw.update(body=base64.b64encode(b"{").decode()),
    "a body that cannot be shown": undecodable,
    "pickled": lambda raw: raw.update({"content-type": "application/x-python-serialize", "content-encoding": "binary"}),
}


@pytest.mark.parametrize("wound", WOUNDS.values(), ids=WOUNDS)
def test_a_message_that_cannot_be_read_is_done_with_once_and_the_next_one_is_asked(
    stand: Stand, wound: Callable[[dict[str, Any]], object], caplog: pytest.LogCaptureFixture
) -> None:
    stand.receive(1, wound)
    assert stand.channel.refused + stand.channel.acknowledged == ["tag1"]
    assert stand.batches == []
    assert caplog.records, "somebody may miss it"
    stand.receive(2, lambda _: None)
    assert [held.question_ids for batch in stand.batches for held in batch.held] == [["q2"]]
    assert stand.channel.refused + stand.channel.acknowledged == ["tag1"]


def test_a_message_that_was_refused_before_its_trouble_is_not_refused_again(stand: Stand) -> None:
    """To refuse it twice would end the worker."""

    def fail(*_: object, **__: object) -> NoReturn:
        raise ValueError("an event that cannot be sent")

    stand.consumer.event_dispatcher = SimpleNamespace(send=fail)
    stand.receive(1, WOUNDS["a task of others"])
    assert stand.channel.refused == ["tag1"]


def test_a_worker_takes_messages_only_from_a_redis_that_takes_its_writes(
    stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would connect to a full one, be refused, and connect again, many times a second."""
    monkeypatch.setattr(stand.consumer, "ensure_connected", lambda connection: connection)
    options = stand.consumer.connection_for_read().transport_options
    assert options == {**stand.consumer.app.conf.broker_transport_options, FOR_WRITING: True}
