"""Task events for Flower: one received-started-succeeded triple per message, sent by a thread of its own.

The thread sends at once if there were no events for `EVERY_S`, else all that came meanwhile in one publish. For short
batches, that costs far less than two publishes for each, and a Redis that does not answer delays nothing but events.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from contract.queue import shown_arguments
from workers.messages.batch import Batch, Settlement
from workers.retries import reason_of

if TYPE_CHECKING:
    from celery import Celery

__all__ = ["BatchEvents"]

log = logging.getLogger(__name__)

#: Interval between publishes in seconds, if there is something to publish.
EVERY_S = 0.1
#: How long `close` waits for the last ones to be sent.
LAST_WITHIN_S = 2.0

#: Events, each with its kind and its fields.
_Events = list[tuple[str, dict[str, Any]]]


class BatchEvents:
    """Sends the events of batches. `started` and `ended` may be called from any thread, and do not wait for Redis."""

    def __init__(self, app: Celery, hostname: str, task_name: str) -> None:
        self._app = app
        self._hostname = hostname
        self._task_name = task_name
        self._unsent: queue.SimpleQueue[_Events | None] = queue.SimpleQueue()
        self._dispatcher: Any = None
        self._thread = threading.Thread(target=self._send_until_closed, name="task events", daemon=True)
        self._thread.start()

    def started(self, batch: Batch) -> None:
        """Report that the batch's messages were received and started."""
        events: _Events = []
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
        self._unsent.put(events)

    def ended(self, batch: Batch) -> None:
        """Report that the batch's messages succeeded, or are tried again."""
        now, runtime_s = time.time(), batch.took_s()
        events: _Events = []
        for held in batch.held:
            if held.settlement is Settlement.ACKNOWLEDGE:
                kind, what = "task-succeeded", {"result": held.summary, "runtime": runtime_s}
            else:
                reason = batch.fatal or held.summary or "requeued"
                kind, what = "task-retried", {"exception": reason, "traceback": ""}
            events.append((kind, {"uuid": held.request.id, "timestamp": now, **what}))
        self._unsent.put(events)

    def close(self) -> None:
        """Send what is left, if Redis takes it soon."""
        self._unsent.put(None)
        self._thread.join(LAST_WITHIN_S)

    def _send_until_closed(self) -> None:
        closed = False
        while not closed:
            found = [self._unsent.get()]
            with suppress(queue.Empty):
                while True:
                    found.append(self._unsent.get_nowait())
            closed = None in found
            if sending := [event for events in found for event in events or ()]:
                self._send(sending)
            if not closed:
                time.sleep(EVERY_S)

    def _send(self, events: _Events) -> None:
        try:
            if self._dispatcher is None:
                self._dispatcher = self._new_dispatcher()
            for kind, fields in events:
                self._dispatcher.send(kind, **fields)
            self._dispatcher.flush()
        except Exception as trouble:  # noqa: BLE001 - monitoring must never cost a verdict
            log.warning("task events not sent: %s", reason_of(trouble))
            with suppress(Exception):  # it may be broken in any way, or not made yet
                self._dispatcher.connection.release()
            self._dispatcher = None

    def _new_dispatcher(self) -> Any:
        return self._app.events.Dispatcher(
            self._app.connection_for_write(transport_options={"max_retries": 1}),
            hostname=self._hostname,
            enabled=True,
            buffer_group=["task"],
            buffer_limit=1_000_000,
            buffer_while_offline=False,
        )
