"""Task events for Flower: one received-started-succeeded triple per message, flushed twice per batch.

With the thread pool, Celery 5.6.3 loses events that several threads send through its single dispatcher (celery issue
10434). Here each pool thread has its own dispatcher, and a batch's events are sent in one publish.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Any

from contract.queue import shown_arguments
from workers.messages.batch import Batch, Settlement

if TYPE_CHECKING:
    from celery import Celery

__all__ = ["BatchEvents"]

log = logging.getLogger(__name__)


class BatchEvents:
    """Sends the events of whole batches from the pool threads that run them."""

    def __init__(self, app: Celery, hostname: str, task_name: str) -> None:
        self._app = app
        self._hostname = hostname
        self._task_name = task_name
        self._local = threading.local()

    def started(self, batch: Batch) -> None:
        """Send received and started events for the batch's messages."""
        events: list[tuple[str, dict[str, Any]]] = []
        for held in batch.held:
            request = held.request
            what = {
                "uuid": request.id,
                "name": self._task_name,
                "args": shown_arguments(held.run_id, len(held.question_ids)),
                "kwargs": "",
                "retries": 0,
                "eta": None,
                "expires": None,
                "root_id": request.root_id or request.id,
                "parent_id": None,
                "timestamp": held.arrived_at,
            }
            events.append(("task-received", what))
            events.append(("task-started", {"uuid": request.id, "timestamp": batch.started_at}))
        self._send(events)

    def ended(self, batch: Batch) -> None:
        """Send succeeded or retried events for the batch's messages."""
        runtime_s = time.time() - batch.started_at
        events: list[tuple[str, dict[str, Any]]] = []
        for held in batch.held:
            if held.settlement is Settlement.ACKNOWLEDGE:
                events.append(
                    ("task-succeeded", {"uuid": held.request.id, "result": held.summary, "runtime": runtime_s})
                )
            else:
                reason = batch.fatal or held.summary or "requeued"
                events.append(("task-retried", {"uuid": held.request.id, "exception": reason, "traceback": ""}))
        self._send(events)

    def _send(self, events: list[tuple[str, dict[str, Any]]]) -> None:
        try:
            dispatcher = self._dispatcher()
            for kind, fields in events:
                dispatcher.send(kind, **fields)
            dispatcher.flush()
        except Exception as trouble:  # noqa: BLE001 - monitoring must never cost a verdict
            log.warning("task events not sent: %s", trouble)
            self._local.dispatcher = None

    def _dispatcher(self) -> Any:
        dispatcher = getattr(self._local, "dispatcher", None)
        if dispatcher is None:
            dispatcher = self._local.dispatcher = self._app.events.Dispatcher(
                self._app.connection_for_write(transport_options={"max_retries": 1}),  # a verdict must not wait for it
                hostname=self._hostname,
                enabled=True,
                buffer_group=["task"],
                buffer_limit=1_000_000,
                buffer_while_offline=False,
            )
        return dispatcher
