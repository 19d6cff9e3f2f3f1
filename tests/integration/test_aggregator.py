"""What the aggregator does with a real broker's messages. The test plays Celery: its connection, timer, and pool."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, NoReturn, cast

import pytest
import redis
from celery import Celery, bootsteps
from celery.exceptions import InvalidTaskError
from celery.worker import state
from kombu import Connection, Consumer, Queue

from contract import Settings
from contract.keys import broker_lists, unacked_options
from contract.queue import publish, task_name
from tests.integration.runs import QUEUE
from tests.support import PATIENCE_S
from workers.messages.aggregator import Aggregator
from workers.messages.batch import Batch, Settlement
from workers.messages.transport import Transport

BOOKS = unacked_options("w0@test")
BATCH_TIMEOUT_S = 60.0
REQUEUE, ACKNOWLEDGE = Settlement.REQUEUE, Settlement.ACKNOWLEDGE


@dataclass(eq=False)
class Entry:
    """A call that a timer is to make."""

    call: Callable[[], object]
    cancelled: bool = False

    def cancel(self) -> None:
        self.cancelled = True


class Timer:
    """Celery's timer. It calls when the test says so."""

    def __init__(self) -> None:
        self._entries: list[Entry] = []
        #: After how many seconds the latest call is due.
        self.due_in_s = 0.0

    @property
    def entries(self) -> list[Entry]:
        """What it is to call."""
        return [each for each in self._entries if not each.cancelled]

    def call_after(self, seconds: float, call: Callable[..., object], arguments: tuple[object, ...] = ()) -> Entry:
        self.due_in_s = seconds
        self._entries.append(Entry(lambda: call(*arguments)))
        return self._entries[-1]

    def all_is_due(self) -> None:
        due, self._entries = self.entries, []
        for each in due:
            each.call()


class Stand:
    """An aggregator whose batches run, and end, when the test says so."""

    def __init__(self, settings: Settings, app: Celery, client: redis.Redis, most_batches: int = 3) -> None:
        self.client, self._app = client, app
        self._url = settings.redis_url.get_secret_value()
        self.audits = 0
        #: Why messages were refused.
        self.refused: list[str] = []
        self._batches: list[tuple[Callable[[Batch], Batch], Batch, Callable[[Batch], None]]] = []
        self.run_batch: Callable[[Batch], None] = lambda _: None

        class Task(Aggregator):
            name = task_name(QUEUE)

            def run_batch(_, batch: Batch) -> None:  # noqa: N805
                self.run_batch(batch)

            def most_batches(_) -> int:  # noqa: N805
                return most_batches

            def audit_soon(_) -> None:  # noqa: N805
                self.audits += 1

        Task.settings = settings.model_copy(update={"batch_size": 2, "batch_timeout": BATCH_TIMEOUT_S})
        self._task = Task()
        app.register_task(self._task)
        self.timer = Timer()
        self.blueprint = SimpleNamespace(state=bootsteps.RUN)
        self._consumer = SimpleNamespace(
            pool=SimpleNamespace(limit=3, apply_async=self._start),
            timer=self.timer,
            hostname="w0@test",
            connection_errors=Transport.connection_errors,
            blueprint=self.blueprint,
            call_soon=lambda call, *arguments: call(*arguments),
        )
        self.connect()

    def connect(self) -> None:
        """Connect, as at first or after the connection broke."""
        before = self.timer.entries
        self._connection = self._consumer.connection = Connection(
            self._url, transport=Transport, transport_options={**BOOKS, "queue_order_strategy": "priority"}
        )
        handle = self._task.Strategy(self._task, self._app, self._consumer)

        def on_message(message: Any) -> None:
            try:
                handle(message)
            except InvalidTaskError as trouble:
                self.refused.append(str(trouble))
                message.reject()

        self._channel = self._connection.default_channel
        queue = Queue(QUEUE, routing_key=QUEUE)
        Consumer(self._channel, [queue], on_message=on_message, accept=["json"]).consume()
        self._of_connection = [each for each in self.timer.entries if each not in before]

    def reconnect(self) -> None:
        """Lose the connection and connect again. Celery cancels what was set while it connected, and nothing else."""
        self.close()
        for each in self._of_connection:
            each.cancel()
        self.connect()

    def close(self) -> None:
        self._connection.close()
        if self._channel._commands:  # with which kombu requeues messages, after it has ended its connections
            self._channel._commands.connection_pool.disconnect()

    def restore_abandoned(self) -> None:
        """Requeue what has been held for too long, as kombu does every ten seconds."""
        self._channel.qos.restore_visible(num=None, interval=1)

    def receive(self, *question_ids: str, batch_size: int = 2) -> None:
        """Receive what waits, once messages with these questions do, too."""
        if question_ids:
            publish(self._app, QUEUE, "run", question_ids, batch_size)
        self._connection.drain_events(timeout=PATIENCE_S)

    def _start(self, work: Callable[[Batch], Batch], arguments: tuple[Batch], callback: Callable[[Any], None]) -> None:
        self._batches.append((work, *arguments, callback))

    @property
    def running(self) -> list[list[str]]:
        """The questions of each batch that runs."""
        return [[each for held in batch.held for each in held.question_ids] for _, batch, _ in self._batches]

    @property
    def numbers(self) -> list[int]:
        """The numbers of the batches that run."""
        return [batch.number for _, batch, _ in self._batches]

    def room_came(self) -> None:
        """The engine reports that it has room beside the running batches."""
        self._task.room_came()

    def end_batch(
        self, *settlements: Settlement, requeue_after_s: float = 0.0, fatal: str = "", bug: Exception | None = None
    ) -> None:
        """End the oldest batch, its messages settled so."""
        work, batch, worked = self._batches.pop(0)

        def settle(ended: Batch) -> None:
            if bug:
                raise bug
            ended.requeue_after_s, ended.fatal = requeue_after_s, fatal
            for held, settlement in zip(ended.held, settlements, strict=True):
                held.settlement = settlement

        self.run_batch = settle
        worked(work(batch))
        self._channel.qos.write_acknowledgements()

    @property
    def books(self) -> tuple[int, int]:
        """How many messages are held, and how many wait."""
        held = self.client.hlen(BOOKS["unacked_key"])
        return held, sum(self.client.llen(name) for name in broker_lists(QUEUE))


@contextmanager
def standing(*given: Any, **more: Any) -> Iterator[Stand]:
    made = Stand(*given, **more)
    try:
        yield made
    finally:
        made.close()
        state.requests.clear()


@pytest.fixture
def stand(settings: Settings, app: Celery, client: redis.Redis) -> Iterator[Stand]:
    with standing(settings, app, client) as made:
        yield made


@pytest.mark.parametrize("most", [1, 2])
def test_no_more_batches_run_at_a_time_than_the_job_wants_however_its_worker_was_started(
    settings: Settings, app: Celery, client: redis.Redis, most: int
) -> None:
    """A worker that searches ran as many as an engine would, unless the launcher had started it."""
    more = settings.model_copy(update={"batches_in_flight": 2})
    publish(app, QUEUE, "run", ["q0", "q1", "q2", "q3"], batch_size=2)
    with standing(more, app, client, most_batches=most) as stand:
        stand.receive()
        assert len(stand.running) == most
        stand.end_batch(ACKNOWLEDGE)
        assert len(stand.running) == 1


def test_a_message_waits_here_for_its_next_attempt_and_the_others_of_its_batch_are_settled_at_once(
    stand: Stand,
) -> None:
    stand.receive("q0", "q1", batch_size=1)
    stand.end_batch(REQUEUE, ACKNOWLEDGE, requeue_after_s=5.0)
    assert stand.books == (1, 0)
    assert not state.requests, "Celery would keep them for ever"
    stand.timer.all_is_due()
    assert stand.books == (0, 1)


def test_a_message_that_waits_for_its_next_attempt_goes_back_although_the_connection_breaks_meanwhile(
    stand: Stand,
) -> None:
    stand.receive("q0", "q1")
    stand.end_batch(REQUEUE, requeue_after_s=5.0)
    stand.reconnect()
    assert stand.books == (1, 0)
    stand.timer.all_is_due()
    assert stand.books == (0, 1)


def test_a_message_that_waits_for_its_next_attempt_goes_back_once_although_a_new_connection_breaks_at_once(
    stand: Stand,
) -> None:
    """Celery logged the traceback of a KeyError."""
    stand.receive("q0", "q1")
    stand.end_batch(REQUEUE, requeue_after_s=5.0)
    stand.reconnect()
    stand.reconnect()
    stand.timer.all_is_due()
    assert stand.books == (0, 1)


def test_a_message_waits_for_its_next_attempt_as_long_as_it_shall_and_no_longer_because_the_connection_breaks(
    stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand.receive("q0", "q1")
    now_s = time.monotonic()
    monkeypatch.setattr("workers.messages.aggregator.time", SimpleNamespace(monotonic=lambda: now_s, time=time.time))
    stand.end_batch(REQUEUE, requeue_after_s=5.0)
    assert stand.timer.due_in_s == 5.0
    now_s += 3.0
    stand.reconnect()
    assert stand.timer.due_in_s == 2.0
    now_s += 3.0
    stand.reconnect()
    assert stand.timer.due_in_s == 0.0, "it was away for longer"


def test_a_message_that_waited_for_its_attempt_does_not_go_back_during_it_when_the_connection_breaks(
    stand: Stand,
) -> None:
    """Another worker would begin it, too."""
    stand.receive("q0", "q1")
    stand.end_batch(REQUEUE, requeue_after_s=5.0)
    stand.timer.all_is_due()
    stand.receive()
    stand.reconnect()
    stand.timer.all_is_due()
    assert (stand.books, stand.running) == ((1, 0), [["q0", "q1"]])
    stand.end_batch(ACKNOWLEDGE)
    assert stand.books == (0, 0)


def test_messages_of_a_batch_that_takes_longer_than_the_broker_waits_stay_held(
    stand: Stand, app: Celery, client: redis.Redis
) -> None:
    patience_s = app.conf.broker_transport_options["visibility_timeout"]
    stand.receive("q0", "q1")
    began = time.time()
    (tag,) = cast("list[str]", client.zrange(BOOKS["unacked_index_key"], 0, -1))
    for reconnects in (False, True):  # Redis may have been away for long
        client.zadd(BOOKS["unacked_index_key"], {tag: began - 2 * patience_s})
        if reconnects:
            stand.reconnect()
        stand.restore_abandoned()
        assert cast(float, client.zscore(BOOKS["unacked_index_key"], tag)) >= began


def test_messages_that_gather_when_the_connection_breaks_are_a_batch_when_their_time_is_up(
    stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand.receive("q0", batch_size=1)
    stand.reconnect()
    assert stand.audits == 1, "a message on its way may be lost"
    assert (stand.books, stand.running) == ((1, 0), [])
    later = time.monotonic() + BATCH_TIMEOUT_S
    monkeypatch.setattr("workers.messages.aggregator.time.monotonic", lambda: later)
    stand.timer.all_is_due()
    assert stand.running == [["q0"]]


def test_a_batch_that_gathers_is_looked_at_once_however_often_the_connection_broke(stand: Stand) -> None:
    """Each reconnect added a timer, which set itself again and again."""
    stand.receive("q0", batch_size=1)
    for _ in range(3):
        stand.reconnect()
        stand.timer.all_is_due()
    assert len(stand.timer.entries) == 1


def test_a_message_that_a_broken_connection_took_and_did_not_deliver_goes_back(
    stand: Stand, app: Celery, client: redis.Redis
) -> None:
    stand.receive("q0", "q1")
    publish(app, QUEUE, "run", ["q2"], batch_size=2)
    message = str(client.rpop(broker_lists(QUEUE)[2]))
    client.hset(BOOKS["unacked_key"], "tag", f'[{message}, "", "{QUEUE}"]')
    assert stand.books == (2, 0)
    stand.reconnect()
    assert (stand.books, stand.running) == ((1, 1), [["q0", "q1"]])


def test_a_message_that_is_queued_again_although_it_is_held_is_in_one_batch_and_settled_once(
    stand: Stand, app: Celery, client: redis.Redis
) -> None:
    publish(app, QUEUE, "run", ["q0", "q1"], batch_size=2)
    message = str(client.lindex(broker_lists(QUEUE)[2], 0))
    stand.receive()
    client.lpush(broker_lists(QUEUE)[2], message)
    stand.receive()
    assert stand.running == [["q0", "q1"]]
    stand.end_batch(ACKNOWLEDGE)
    assert stand.books == (0, 0)


def test_a_message_with_the_id_of_another_one_that_is_held_is_refused(
    stand: Stand, app: Celery, client: redis.Redis
) -> None:
    publish(app, QUEUE, "run", ["q0", "q1"], batch_size=2)
    copy = json.loads(str(client.lindex(broker_lists(QUEUE)[2], 0)))
    copy["properties"]["delivery_tag"] = "another"
    client.lpush(broker_lists(QUEUE)[2], json.dumps(copy))
    stand.receive()
    assert [why.partition("'")[0] for why in stand.refused] == ["duplicate message id "]
    stand.end_batch(ACKNOWLEDGE)
    assert stand.books == (0, 0)


def test_a_batch_more_than_usual_leaves_once_the_engine_has_room_for_it(stand: Stand) -> None:
    stand.receive(*(f"q{n}" for n in range(8)))
    assert (stand.running, stand.books) == ([["q0", "q1"], ["q2", "q3"]], (3, 1)), "and the next batch is here"
    stand.room_came()
    assert stand.running == [["q0", "q1"], ["q2", "q3"], ["q4", "q5"]]
    assert len(set(stand.numbers)) == 3, "a stage tells its batches apart by them"


def test_a_worker_that_stops_begins_no_other_batch_and_what_waits_for_one_goes_back(
    stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand.receive("q0", "q1", "q2", batch_size=1)
    assert (stand.running, stand.books) == ([["q0", "q1"]], (3, 0))
    monkeypatch.setattr(state, "should_stop", 0)
    later = time.monotonic() + BATCH_TIMEOUT_S
    monkeypatch.setattr("workers.messages.aggregator.time.monotonic", lambda: later)
    stand.timer.all_is_due()
    stand.end_batch(ACKNOWLEDGE, REQUEUE)
    assert (stand.running, stand.books) == ([], (1, 1))
    stand.blueprint.state = bootsteps.CLOSE
    stand.close()
    assert stand.books == (0, 2)


def test_messages_of_a_batch_whose_engine_died_go_back_and_their_worker_stops(
    stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    why: list[str] = []
    monkeypatch.setattr("workers.messages.aggregator.stop_without_engine", why.append)
    stand.receive("q0", "q1", "q2", "q3")
    stand.end_batch(ACKNOWLEDGE)
    assert why == []
    stand.end_batch(REQUEUE, fatal="gone")
    assert (why, stand.books) == (["gone"], (0, 1))


def test_messages_of_a_batch_that_meets_a_bug_go_back_after_ever_longer_rests(
    stand: Stand, app: Celery, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    rests: list[float] = []
    monkeypatch.setattr("workers.messages.aggregator.time.sleep", rests.append)
    publish(app, QUEUE, "run", ["q0", "q1"], batch_size=2)
    for bug in (ZeroDivisionError("odd"), ZeroDivisionError("odd"), None, ZeroDivisionError("odd")):
        stand.receive()
        stand.end_batch(REQUEUE, bug=bug)
        assert stand.books == (0, 1)
    assert rests == [1, 2, 1]
    assert caplog.text.count("ZeroDivisionError: odd") == 3


def test_a_message_that_cannot_go_back_while_redis_is_away_goes_back_later(
    stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand.receive("q0", "q1", "q2", "q3")

    def gone(*_: object, **__: object) -> NoReturn:
        raise redis.ConnectionError("gone")

    with monkeypatch.context() as away:
        away.setattr(redis.client.Pipeline, "execute", gone)
        stand.end_batch(REQUEUE)
    assert stand.books == (2, 0)
    stand.timer.all_is_due()
    assert (stand.books, stand.running) == ((1, 1), [["q2", "q3"]])
