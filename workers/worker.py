"""One worker process: its name, its engine, its side jobs, and the order in which they start and end."""

from __future__ import annotations

import logging
import os
from typing import Any

from celery import Celery

from contract.fleet import Fleet, WorkerRecord, WorkerState
from contract.ledger import RedisLedger
from contract.queue import TASK_NAME, restore_held
from contract.settings import Settings
from workers.aggregator import Batch
from workers.engines import make_engine
from workers.events import BatchEvents
from workers.janitor import Janitor
from workers.tasks import BatchScorer

__all__ = ["Worker"]

log = logging.getLogger(__name__)


class Worker:
    """What a worker process has besides Celery. Making one connects to Redis and raises RedisUnreachable."""

    def __init__(self, settings: Settings, app: Celery, name: str) -> None:
        self.name = name
        self.state = WorkerState.BOOTING
        self._settings = settings
        self._ledger = RedisLedger.connect(settings)
        self._engine = make_engine(settings)
        self._engine_is: dict[str, Any] = {}
        self._scorer = BatchScorer(settings, self._ledger, self._engine, name)
        self._events = BatchEvents(app, name, TASK_NAME)
        self._janitor = Janitor(settings, app, self.record)

    def boot(self) -> None:
        """Take the name, put back what an earlier worker of that name held, boot the engine. Raises McqueueError."""
        Fleet(self._ledger.client).join(self.record())
        messages = restore_held(self._settings, self.name)
        if messages:
            log.warning("an earlier worker of this name held %d messages; they are back on the queue", messages)
        self._janitor.start()
        log.info("booting %s with %s", self._settings.engine, self._settings.hf_model_id)
        self._engine.start()
        self._engine_is = self._engine.describe()

    def ready(self) -> None:
        """The engine is up and messages are taken: tell the fleet, and the launcher if there is one."""
        self.state = WorkerState.READY
        log.info("ready: takes question batches for %s", self._settings.served_model, extra={"action": "ready"})
        if channel := os.environ.get("MCQUEUE_READY_FD"):
            os.write(int(channel), b"ready\n")

    def run_batch(self, batch: Batch) -> None:
        """Score `batch`, from any pool thread."""
        self._scorer.run(batch, self._events)

    def close(self) -> None:
        """Free the engine and the name."""
        self._engine.close()
        if self._janitor.is_alive():
            self._janitor.stop()

    def record(self) -> WorkerRecord:
        """What the fleet may know of this worker now."""
        return WorkerRecord(
            name=self.name,
            model=self._settings.served_model,
            state=self.state,
            gpus=os.environ.get("CUDA_VISIBLE_DEVICES", ""),
            engine=self._engine_is,
            batch_size=self._settings.batch_size,
            settled=self._scorer.settled,
        )
