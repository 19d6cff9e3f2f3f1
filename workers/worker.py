"""One worker process: its name, its engine, its side jobs, and the order in which they start and end."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from typing import Any

from celery import Celery

from contract.errors import EXIT_RETRY, LedgerError
from contract.fleet import LEASE_S, Fleet, Wish, WorkerRecord, WorkerState
from contract.ledger import RedisLedger
from contract.queue import TASK_NAME, restore_held
from contract.settings import Settings
from workers.aggregator import Batch
from workers.ending import end_at_once
from workers.engines import JudgeEngines, make_engine
from workers.engines.guarded import Guarded
from workers.events import BatchEvents
from workers.janitor import Heart, Janitor
from workers.tasks import BatchScorer

__all__ = ["Worker"]

log = logging.getLogger(__name__)


class Worker:
    """What a worker process has besides Celery. Making one connects to Redis and raises RedisUnreachable."""

    def __init__(
        self,
        settings: Settings,
        app: Celery,
        name: str,
        *,
        stopping: Callable[[], bool],
        on_name_lost: Callable[[], None],
        on_wish: Callable[[Wish], None],
    ) -> None:
        self.name = name
        self.state = WorkerState.BOOTING
        self._settings = settings
        self._ledger = RedisLedger.connect(settings)
        self._engine = Guarded(make_engine(settings), on_hang=lambda: end_at_once(EXIT_RETRY))
        self._engine_is: dict[str, Any] = {}
        self._fleet = Fleet(self._ledger.client, self._ledger.place)
        self._judges = JudgeEngines(settings)
        self._scorer = BatchScorer(settings, self._ledger, self._engine, name, stopping, self._judges.engine_of)
        self._events = BatchEvents(app, name, TASK_NAME)
        self._heart = Heart(settings, self.record, on_name_lost, on_wish)
        self._janitor = Janitor(settings, app, name)

    def boot(self) -> None:
        """Take the name, put back what an earlier worker of that name held, boot the engine. Raises McqueueError."""
        had_predecessor = self.name in self._fleet.names()
        self._fleet.join(self.record())
        if self._fleet.wish(self.name) is Wish.RESTART:
            self._fleet.fulfilled(self.name)  # by being here
        self._heart.start()
        messages = restore_held(self._settings, self.name)
        if messages:
            log.warning("an earlier worker of this name held %d messages; they are back on the queue", messages)
        self._janitor.audit(thoroughly=had_predecessor)
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

    def reconnected(self) -> None:
        """The broker was away: what it had in our name then may never have reached us."""
        self._janitor.restore_own_soon()

    def close(self) -> None:
        """Free the engine and the name."""
        self._engine.close()
        self._judges.close()
        self._janitor.stop()
        self._heart.stop()
        try:
            self._fleet.leave(self.record())
        except LedgerError as trouble:
            log.warning("the name is not given back, and is free again in %d s: %s", LEASE_S, trouble)

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
            launched="MCQUEUE_READY_FD" in os.environ,
        )
