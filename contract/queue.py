"""The queue: one Celery message is a question batch, `(run id, [question ids])`; bodies stay in the ledger.

Both sides create their Celery app here and nowhere else. Names, priorities and the message's shape are the wire format.
"""

from __future__ import annotations

import base64
import json
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Annotated, Any, NamedTuple, cast

import redis
from celery import Celery
from celery.backends.base import DisabledBackend
from kombu import Connection
from kombu.exceptions import BatchPublishError, OperationalError
from kombu.utils.uuid import uuid
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from contract import address, keys
from contract.chunks import chunks
from contract.connection import refused, translating
from contract.errors import LedgerError, RedisUnreachable
from contract.priority import Priority
from contract.settings import MOST_QUESTIONS, Settings

__all__ = [
    "MESSAGE_VERSION",
    "UNREADABLE",
    "QuestionBatch",
    "ReceivedBatch",
    "by_priority",
    "held_question_ids",
    "make_celery",
    "oldest_published_at",
    "publish",
    "queue_length",
    "queue_lengths",
    "queued_messages",
    "queued_question_ids",
    "queued_runs",
    "restore_held",
    "send",
    "shown_arguments",
    "task_name",
]

#: Incremented when current workers could misread a new message.
MESSAGE_VERSION = 1
#: Messages of a broker list read per round trip.
READ_CHUNK = 2000
#: A server that has not answered for this long counts as gone; its host may have vanished silently. This is redis-py's
#: default, which kombu disables; a BRPOP waits for one second only.
SOCKET_TIMEOUT_S = 5.0
#: Errors that reading a malformed message may raise; connection errors are not among them.
UNREADABLE = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError)


class QuestionBatch(NamedTuple):
    """A question batch to be sent."""

    run_id: str
    question_ids: list[str]
    priority: Priority
    #: When the questions were first published; kept when a batch is sent on to the next stage.
    published_at: float


class ReceivedBatch(BaseModel):
    """A received question batch, validated: a queue may contain anything."""

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore")  # a newer producer may send more

    run_id: str = Field(min_length=1)
    question_ids: list[str] = Field(min_length=1, max_length=MOST_QUESTIONS)
    published_at: float = Field(ge=0, allow_inf_nan=False)
    version: int = Field(ge=1)
    priority: Annotated[Priority, Field(strict=False)]

    @classmethod
    def read(cls, arguments: Any, named: Any, priority: Any) -> ReceivedBatch:
        """Parse a task's arguments and its message's priority. Raises ValueError that says what is wrong."""
        try:
            run_id, question_ids = arguments
            return cls.model_validate({**named, "run_id": run_id, "question_ids": question_ids, "priority": priority})
        except ValidationError as trouble:
            first = trouble.errors(include_input=False, include_url=False)[0]
            raise ValueError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None
        except TypeError as trouble:
            raise ValueError(str(trouble)) from None


class _Celery(Celery):  # type: ignore[misc]  # celery ships no types
    """Celery without a result backend, which it would search for in all installed packages: 6 ms."""

    def _get_backend(self) -> DisabledBackend:
        return DisabledBackend(app=self)


def make_celery(settings: Settings) -> Celery:
    """Create the Celery app of either side. Reasons: docs/how-it-works.md, "How Celery is used"."""
    # A producer names the queue of each message; only workers read from this one, and they serve one model.
    queue = "celery" if settings.models else keys.score_queue(settings.served_model)
    url = settings.redis_url.get_secret_value()
    app = _Celery("mcqueue", broker=url, set_as_current=False)
    app.conf.update(
        broker_use_ssl=address.tls(url),
        task_serializer="json",
        result_serializer="json",
        event_serializer="json",
        accept_content=["json"],
        task_ignore_result=True,  # verdicts go to the ledger, one Lua call a batch
        task_acks_late=True,
        task_default_queue=queue,
        task_default_priority=int(Priority.NORMAL),
        worker_pool="threads",  # prefork children are daemonic and cannot host vLLM; solo stops heartbeats
        worker_concurrency=settings.max_batches_in_flight,
        worker_prefetch_multiplier=0,  # the aggregator's gate counts questions instead
        worker_enable_prefetch_count_reduction=False,
        worker_hijack_root_logger=False,
        worker_send_task_events=True,  # for Celery's banner; workers/monitoring/events.py sends them
        worker_cancel_long_running_tasks_on_connection_loss=False,
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        broker_transport_options={
            "visibility_timeout": 600,  # only a backstop: dead workers' messages are restored long before
            "unacked_restore_interval": 10,
            "unacked_restore_throttle": 1,
            "queue_order_strategy": "priority",
            "socket_timeout": SOCKET_TIMEOUT_S,
            "socket_keepalive": True,
            "health_check_interval": 10,
        },
    )
    return app


def task_name(queue: str) -> str:
    """Return the Celery task of the messages of `queue`: `mcqueue.score` or `mcqueue.retrieve`."""
    return f"mcqueue.{queue.partition('.')[0]}"


def shown_arguments(run_id: str, questions: int) -> str:
    """Return the arguments of a message as Flower shows them; `level.lua` parses run and number from this text."""
    return f"{run_id}: {questions} question{'' if questions == 1 else 's'}"


def publish(
    app: Celery,
    queue: str,
    run_id: str,
    question_ids: Iterable[str],
    batch_size: int,
    priority: Priority = Priority.NORMAL,
) -> int:
    """Send question batches of `batch_size` ids to `queue` and return how many were sent. Raises like `send`."""
    batches = (QuestionBatch(run_id, ids, priority, time.time()) for ids in chunks(question_ids, batch_size))
    return send(app, queue, batches)


def send(app: Celery, queue: str, batches: Iterable[QuestionBatch]) -> int:
    """Send `batches` to `queue` and return how many were sent.

    Sends are pipelined (`Producer.batch`). After an error it is unknown what was sent: the audit finds out, and a
    question sent twice is found settled. Raises LedgerError.
    """
    sent = 0
    task = task_name(queue)
    try:
        with app.producer_pool.acquire(block=True) as producer, producer.batch(max_size=1000):
            for batch in batches:
                # The two steps of `Celery.send_task`, which spends more time on routing than these take together.
                message = app.amqp.as_task_v2(
                    uuid(),
                    task,
                    (batch.run_id, batch.question_ids),
                    {"published_at": batch.published_at, "version": MESSAGE_VERSION},
                    argsrepr=shown_arguments(batch.run_id, len(batch.question_ids)),
                    kwargsrepr="",
                    create_sent_event=False,
                    ignore_result=True,
                )
                app.amqp.send_task_message(
                    producer,
                    task,
                    message,
                    queue=queue,
                    priority=int(batch.priority),
                    retry=False,
                    declare=[],  # the default exchange delivers by the queue's name
                )
                sent += 1
    except (BatchPublishError, OperationalError, redis.RedisError, OSError) as trouble:
        raise _why_not_sent(trouble.__cause__ or trouble) from None
    return sent


def _why_not_sent(cause: BaseException) -> LedgerError:
    """Translate what kombu wraps: a broken pipeline in BatchPublishError, a lost connection in OperationalError."""
    if found := refused(cause, "Redis"):
        return found
    if isinstance(cause, redis.ResponseError):
        return LedgerError(f"Redis refuses question batches: {cause}.")
    return RedisUnreachable(
        f"Redis became unreachable while question batches were sent ({cause}).", hint="Repeat the command to resume."
    )


def queue_length(client: redis.Redis, queue: str) -> int:
    """Return the number of messages waiting on `queue`."""
    return sum(queue_lengths(client, queue).values())


def queue_lengths(client: redis.Redis, queue: str) -> dict[Priority, int]:
    """Return the number of messages waiting on `queue`, by priority."""
    pipeline = client.pipeline(transaction=True)
    for name in keys.broker_lists(queue):
        pipeline.llen(name)
    return by_priority(pipeline.execute())


def by_priority(lengths: Iterable[int]) -> dict[Priority, int]:
    """Sum the lengths of a queue's broker lists, most urgent first, by priority: kombu has more steps than we do."""
    waiting = dict.fromkeys(Priority, 0)
    for step, length in zip(keys.PRIORITY_STEPS, lengths, strict=True):
        waiting[max(each for each in Priority if each <= step)] += length
    return waiting


def oldest_published_at(client: redis.Redis, queue: str) -> float | None:
    """Return when the oldest message waiting on `queue` was published, in seconds since the epoch; None if none waits.

    Only the next message of each list is read. A requeued message counts from its first publishing; malformed ones are
    ignored.
    """
    pipeline = client.pipeline(transaction=True)
    for name in keys.broker_lists(queue):
        pipeline.lindex(name, -1)
    published = [_published_at(each) for each in pipeline.execute() if each]
    return min((each for each in published if each is not None), default=None)


def _published_at(message: str) -> float | None:
    try:
        _, options, *_ = json.loads(base64.b64decode(json.loads(message)["body"]))
        return float(options["published_at"])
    except UNREADABLE:
        return None


def queued_question_ids(client: redis.Redis, queue: str, run_id: str) -> set[str]:
    """Return the question ids of `run_id` in messages waiting on `queue`."""
    lists = keys.broker_lists(queue)
    return {each for name in lists for each in _ids_in(_list_items(client, name), run_id)}


def queued_messages(client: redis.Redis, queue: str, run_id: str) -> int:
    """Return the number of messages of `run_id` waiting on `queue`."""
    lists = keys.broker_lists(queue)
    return sum(1 for name in lists for _ in _messages_of(_list_items(client, name), run_id))


def queued_runs(client: redis.Redis, queue: str) -> Counter[str]:
    """Return the number of messages waiting on `queue` by run id; malformed ones are counted under an empty one."""
    messages = (item for name in keys.broker_lists(queue) for item in _list_items(client, name))
    return Counter(_arguments_in(item)[0] for item in messages)


def held_question_ids(client: redis.Redis, workers: Iterable[str], run_id: str) -> set[str]:
    """Return the question ids of `run_id` in unacknowledged messages held by `workers`."""
    held = (cast("list[str]", client.hvals(keys.unacked(name))) for name in workers)
    return {each for messages in held for each in _ids_in(messages, run_id)}


def restore_held(settings: Settings, worker: str) -> int:
    """Requeue the messages that dead worker `worker` held, and return how many.

    This is kombu's own restore, with this worker's unacked keys and a visibility timeout far below zero, as the dead
    worker's clock may have been ahead. Only for a worker that is known to be dead: a live one's messages would be
    executed twice. Raises LedgerError.
    """
    url, books = settings.redis_url.get_secret_value(), keys.unacked_options(worker)
    with translating(settings.redis_place), redis.Redis.from_url(url, decode_responses=True) as client:
        held = cast(int, client.hlen(keys.unacked(worker)))
        # A worker killed during a restore leaves its lock behind, and kombu would silently give up. The lock only saves
        # work: each message is requeued in its own transaction, only once however many try.
        client.delete(books["unacked_mutex_key"])
        if held:
            _restore(url, {**books, "visibility_timeout": -(10**9), "socket_timeout": SOCKET_TIMEOUT_S})
        return held - cast(int, client.hlen(keys.unacked(worker)))


def _restore(url: str, options: dict[str, Any]) -> None:
    try:
        with Connection(url, ssl=address.tls(url), transport_options=options) as connection:
            connection.default_channel.qos.restore_visible(num=None, interval=1)
    except OperationalError as trouble:
        raise trouble.__cause__ or trouble from None


def _list_items(client: redis.Redis, name: str) -> Iterator[str]:
    start = 0
    while True:
        items = cast("list[str]", client.lrange(name, start, start + READ_CHUNK - 1))
        if not items:
            return
        yield from items
        start += len(items)


def _ids_in(items: Iterable[str], run_id: str) -> Iterator[str]:
    """Yield the question ids of `run_id` in waiting or held messages, skipping malformed ones."""
    for ids in _messages_of(items, run_id):
        yield from ids


def _messages_of(items: Iterable[str], run_id: str) -> Iterator[list[str]]:
    """Yield the question ids of each waiting or held message of `run_id`, skipping malformed ones."""
    named = f'"{run_id}: '  # how `shown_arguments` begins; decoding the messages of all other runs would cost seconds
    for item in items:
        if named not in item:
            continue
        of_run, ids = _arguments_in(item)
        if of_run == run_id:
            yield ids


def _arguments_in(item: str) -> tuple[str, list[str]]:
    """Return the run id and question ids of a waiting or held message; nothing of a malformed one."""
    try:
        found = json.loads(item)
        message = found[0] if isinstance(found, list) else found
        run_id, ids = json.loads(base64.b64decode(message["body"]))[0]
    except UNREADABLE:
        return "", []
    well_formed = isinstance(run_id, str) and isinstance(ids, list)
    return (run_id, [each for each in ids if isinstance(each, str)]) if well_formed else ("", [])
