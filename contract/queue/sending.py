"""Sending of question batches."""

from __future__ import annotations

import time
from collections.abc import Iterable

import redis
from celery import Celery
from kombu.exceptions import BatchPublishError, OperationalError
from kombu.utils.uuid import uuid

from contract.chunks import chunks
from contract.connection import refused
from contract.errors import LedgerError, RedisUnreachable
from contract.priority import Priority
from contract.queue.messages import MESSAGE_VERSION, QuestionBatch, shown_arguments, task_name

__all__ = ["publish", "send"]


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
