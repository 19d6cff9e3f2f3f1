"""The aggregator: a Celery task that gathers messages into batches before it runs them.

It replaces Celery's message handler through the documented `Task.Strategy` hook. It is modelled on celery-batches, but
differs where that loses questions: the deadline is the age of the oldest item and is set again after a reconnect, size
is counted in questions, consumption stops at what the running batches and one more can use, and every message is
settled individually, acknowledged only once its verdicts are in the ledger.

Threads: the event loop's thread owns all state here. A pool thread runs `run_batch`; the batch's messages are then
settled by a single callback in the event loop. Celery's own acknowledgement would need a second callback, which comes
too late for the last batch of a warm shutdown, and would wake the event loop for each message.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection
from functools import partial
from typing import Any

from celery import Task, bootsteps
from celery.exceptions import InvalidTaskError
from celery.utils.imports import symbol_by_name
from celery.worker import state
from celery.worker.request import Request, create_request_cls

from contract.priority import Priority
from contract.queue import ReceivedBatch
from contract.settings import Settings
from workers.messages.batch import Batch, HeldMessage, Settlement
from workers.messages.batching import Gathered, Gathering
from workers.retries import pause_s
from workers.shutdown import stop_without_engine, stopping

__all__ = ["Aggregator"]

log = logging.getLogger(__name__)

#: Pause before another attempt to requeue a message.
REQUEUE_S = 2.0


class Aggregator(Task):  # type: ignore[misc]  # celery ships no types
    """Base of tasks whose messages are `(run id, [question ids])`. Subclasses implement `run_batch`."""

    abstract = True
    acks_late = True
    ignore_result = True
    settings: Settings
    _gatherer: _Gatherer | None = None

    def run_batch(self, batch: Batch) -> None:
        """Process `batch` and set each message's `settlement` and `summary`. Runs in a pool thread; must not raise."""
        raise NotImplementedError

    def most_batches(self) -> int:
        """Return how many batches may run at a time; by default, as many as the settings allow."""
        return self.settings.max_batches_in_flight

    def other_workers(self) -> int:
        """Return the number of other workers on the same queue. Called in the event loop; must not block."""
        return 0

    def audit_soon(self) -> None:
        """Look for lost messages: the connection broke. Called in the event loop; must not block."""

    def Strategy(self, _: Task, app: Any, consumer: Any) -> Callable[..., None]:  # noqa: N802 - Celery's name
        """Celery's hook, called at every (re)connect: gathered messages stay, timers and channel are new."""
        if self._gatherer is None:
            self._gatherer = _Gatherer(self, app, consumer)
        else:
            self.audit_soon()
        self._gatherer.attach()
        return self._gatherer.on_message

    def room_came(self) -> None:
        """Report that the engine has capacity for another batch beside the running ones. From any thread."""
        if self._gatherer is not None:
            self._gatherer.room_came()


class _Gatherer:
    """Gathers messages from Celery's consumer into batches for its thread pool.

    Everything but `_work`, `_worked` and `room_came` runs in the event loop.
    """

    def __init__(self, task: Aggregator, app: Any, consumer: Any) -> None:
        settings = task.settings
        most = min(task.most_batches(), consumer.pool.limit)
        self._task = task
        self._app = app
        #: One for as long as the worker lives; its connection and channel are new after each reconnect.
        self._consumer = consumer
        self._utc = app.uses_utc_timezone()  # a lookup under a lock
        self._request_class = create_request_cls(
            symbol_by_name(task.Request), task, consumer.pool, consumer.hostname, None, app=app
        )
        #: Of the current channel; see `attach`.
        self._qos: Any = None
        self._gathering: Gathering[HeldMessage] = Gathering(
            batch_size=settings.batch_size if settings.enable_batching else 1,
            batch_timeout_s=settings.batch_timeout if settings.enable_batching else 0.0,
            batches_in_flight=min(settings.batches_in_flight, most),
            max_batches_in_flight=min(settings.max_batches_in_flight, most),
        )
        self._held: dict[str, HeldMessage] = {}
        #: Ids of held messages that are requeued later, and when, by the monotonic clock.
        self._requeued_at: dict[str, float] = {}
        #: Calls `_tick` when the oldest message has waited long enough; None: nothing waits, or no batch may begin.
        self._timer: Any = None
        self._batches = 0
        self._failures_in_a_row = 0

    def attach(self) -> None:
        """Use the consumer's present channel from now on, and set all timers again.

        Celery has cancelled the timers that were set here at the last connect, but not those that its event loop set
        since. So that of a message that is to be requeued may fire more than once, and must do no harm then.
        """
        # Celery's own worker_disable_prefetch limits consumption by the same hook.
        self._qos = qos = self._consumer.connection.default_channel.qos
        qos.can_consume = self._gathering.has_room
        qos.room_for = self._gathering.room_for_items
        qos.left_waiting = self._left_waiting
        qos.kept = self._kept
        self._take_over()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for message_id in self._requeued_at:
            self._await_requeue(message_id)
        self._pump()

    def room_came(self) -> None:
        """Dispatch another batch if one is ready. From any thread."""
        self._consumer.call_soon(self._use_room)

    def on_message(self, message: Any, *_: Any, **__: Any) -> None:
        """Celery's message handler: hold the message until its batch is dispatched."""
        request = self._request(message)
        if request.revoked():
            return
        known = self._held.get(request.id)
        if known is not None and known.request.message.delivery_tag != message.delivery_tag:
            raise InvalidTaskError(f"duplicate message id {request.id!r}")
        if known is not None:
            # The same message again, which is held here. A replica of Redis may have taken over without knowing that.
            known.request = request
            return
        held = _read(request)
        self._held[request.id] = held
        state.task_reserved(request)
        awaited = held.priority == Priority.HIGH  # as are those of the HTTP server
        self._gathering.add(held, len(held.question_ids), time.monotonic(), held.priority, awaited=awaited)
        self._pump()

    def _request(self, message: Any) -> Request:
        """Create Celery's request for the message. Raises one of UNREADABLE if malformed; `Consumer` then drops it."""
        return self._request_class(
            message,
            on_ack=message.ack_log_error,
            on_reject=partial(self._give_back, message),
            app=self._app,
            hostname=self._consumer.hostname,
            eventer=None,
            task=self._task,
            connection_errors=self._consumer.connection_errors,
            body=message.body,
            headers=message.headers,
            decoded=False,
            utc=self._utc,
        )

    def _give_back(self, message: Any, _: logging.Logger, errors: tuple[type[Exception], ...], requeue: bool) -> None:
        """Reject a message for Celery. If it cannot be requeued now, try later: it would be stuck for ten minutes."""
        try:
            message.reject(requeue=requeue)
        except errors as trouble:
            log.warning("a message will be requeued later: %s", trouble)
            self._consumer.timer.call_after(REQUEUE_S, self._take_over)

    def _messages(self) -> list[Any]:
        return [held.request.message for held in self._held.values()]

    def _kept(self) -> Collection[str]:
        """Return the tags of the messages that stay here: all, unless Celery's consumer stops."""
        if self._consumer.blueprint.state != bootsteps.RUN:
            return ()
        return [message.delivery_tag for message in self._messages()]

    def _take_over(self) -> None:
        self._qos.take_over(self._messages())

    def _left_waiting(self, messages: int) -> None:
        self._gathering.left_waiting(messages, self._task.other_workers())

    def _pump(self) -> None:
        while not stopping() and (gathered := self._gathering.take(time.monotonic())):
            self._dispatch(gathered)
        due_in_s = self._gathering.due_in_s(time.monotonic())
        if self._timer is None and due_in_s is not None and not stopping():
            self._timer = self._consumer.timer.call_after(due_in_s, self._tick)

    def _use_room(self) -> None:
        self._gathering.room_came()
        self._pump()

    def _tick(self) -> None:
        self._timer = None
        self._pump()

    def _dispatch(self, gathered: Gathered[HeldMessage]) -> None:
        self._batches += 1
        batch = Batch(self._batches, gathered.items, gathered.questions, gathered.flush, gathered.waited_s)
        for held in batch.held:
            state.task_accepted(held.request)
        self._consumer.pool.apply_async(self._work, (batch,), callback=self._worked)

    def _work(self, batch: Batch) -> Batch:
        try:
            self._task.run_batch(batch)
            self._failures_in_a_row = 0
        except Exception:
            self._failures_in_a_row += 1
            log.exception("batch %d failed", batch.number)
            time.sleep(pause_s(self._failures_in_a_row))  # its messages are redelivered at once
        return batch

    def _worked(self, batch: Batch) -> None:
        self._consumer.call_soon(self._finish, batch)

    def _finish(self, batch: Batch) -> None:
        self._gathering.done(batch.questions)
        for held in batch.held:
            state.task_ready(held.request)
            if held.settlement is Settlement.REQUEUE and batch.requeue_after_s:
                self._requeued_at[held.request.id] = time.monotonic() + batch.requeue_after_s
                self._await_requeue(held.request.id)
            else:
                self._settle(held)
        if batch.fatal:
            stop_without_engine(batch.fatal)
        self._pump()

    def _settle(self, held: HeldMessage) -> None:
        self._held.pop(held.request.id, None)
        if held.settlement is Settlement.ACKNOWLEDGE:
            held.request.acknowledge()
        else:
            held.request.reject(requeue=True)

    def _await_requeue(self, message_id: str) -> None:
        """Requeue the message when its pause is over.

        It waits here because in the queue it would be redelivered at once, and in a batch it would occupy a slot that
        others need.
        """
        left_s = max(0.0, self._requeued_at[message_id] - time.monotonic())
        self._consumer.timer.call_after(left_s, self._requeue, (message_id,))

    def _requeue(self, message_id: str) -> None:
        if self._requeued_at.pop(message_id, None) is not None:
            self._settle(self._held[message_id])


def _read(request: Request) -> HeldMessage:
    """Parse the message. Raises InvalidTaskError: then Celery drops it, and the audit sends its questions again."""
    try:
        batch = ReceivedBatch.read(request.args, request.kwargs, request.delivery_info["priority"])
    except ValueError as trouble:
        raise InvalidTaskError(f"not a question batch: {trouble}") from None
    return HeldMessage(
        request=request,
        run_id=batch.run_id,
        question_ids=batch.question_ids,
        published_at=batch.published_at,
        priority=batch.priority,
        version=batch.version,
        arrived_at=time.time(),
    )
