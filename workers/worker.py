"""One worker process: its name, its job, its side jobs, and the order in which they start and end."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from celery import Celery

from contract.errors import LedgerError
from contract.fleet import LEASE_S, Fleet, Wish, WorkerRecord, WorkerState
from contract.ledger import RedisLedger
from contract.queue import restore_held, task_name
from contract.settings import Settings
from workers.aggregator import Batch
from workers.events import BatchEvents
from workers.janitor import Heart, Janitor
from workers.jobs import make_job

__all__ = ["Worker"]

log = logging.getLogger(__name__)


@dataclass
class Load:
    """Batches begun and under way, counted in pool threads."""

    batches: int = 0
    gathered: int = 0
    running: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def of(self, questions: int) -> Iterator[None]:
        """Around a batch of so many questions."""
        with self._lock:
            self.batches, self.gathered, self.running = self.batches + 1, self.gathered + questions, self.running + 1
        try:
            yield
        finally:
            with self._lock:
                self.running -= 1


class Worker:
    """What a worker process has besides Celery. Making one connects to Redis and raises RedisUnreachable."""

    def __init__(
        self,
        settings: Settings,
        app: Celery,
        name: str,
        queue: str,
        *,
        stopping: Callable[[], bool],
        on_name_lost: Callable[[], None],
        on_wish: Callable[[Wish], None],
    ) -> None:
        self.name = name
        self.state = WorkerState.BOOTING
        self._settings = settings
        self._queue = queue
        self._ledger = RedisLedger.connect(settings)
        self._job = make_job(settings, self._ledger, app, name, stopping, queue)
        self._job_is: dict[str, Any] = {}
        self._load = Load()
        self._fleet = Fleet(self._ledger.client, self._ledger.place)
        self._events = BatchEvents(app, name, task_name(queue))
        self._heart = Heart(settings, self.record, on_name_lost, on_wish)
        self._janitor = Janitor(settings, app, name, queue)

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
        self._job.start()
        self._job_is = self._job.describe()

    def ready(self) -> None:
        """The engine is up and messages are taken: tell the fleet, and the launcher if there is one."""
        self.state = WorkerState.READY
        log.info("ready: takes question batches for %s", self._job.name, extra={"action": "ready"})
        if channel := os.environ.get("MCQUEUE_READY_FD"):
            os.write(int(channel), b"ready\n")

    def run_batch(self, batch: Batch) -> None:
        """Do this worker's job for `batch`, from any pool thread."""
        with self._load.of(batch.questions):
            self._job.run(batch, self._events)

    def reconnected(self) -> None:
        """The broker was away: what it had in our name then may never have reached us."""
        self._janitor.restore_own_soon()

    def close(self) -> None:
        """Free engine or index, and the name."""
        self._job.close()
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
            model=self._job.name,
            state=self.state,
            queue=self._queue,
            gpus=os.environ.get("CUDA_VISIBLE_DEVICES", ""),
            engine=self._job_is,
            batch_size=self._settings.batch_size,
            settled=self._job.settled,
            batches=self._load.batches,
            gathered=self._load.gathered,
            running=self._load.running,
            launched="MCQUEUE_READY_FD" in os.environ,
        )
