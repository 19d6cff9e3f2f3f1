"""The worker process: its name, its job, its background threads, and the order of startup and shutdown."""

from __future__ import annotations

import contextlib
import gc
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from celery import Celery

from contract import address
from contract.errors import LedgerError, McqueueError
from contract.fleet import LEASE_S, Fleet, Wish, WorkerRecord, WorkerState
from contract.ledger import RedisLedger
from contract.metrics import RedisMetrics, scrape_targets
from contract.queue import restore_held, send, task_name
from contract.settings import Settings
from contract.wording import number
from workers.gpus.groups import names_in
from workers.heartbeat import Heartbeat
from workers.host import boot_pipe
from workers.host.fleet_diagnostics import differing_engines
from workers.janitor import Janitor
from workers.jobs import make_job
from workers.messages.batch import Batch
from workers.monitoring.events import BatchEvents
from workers.monitoring.exporter import Exporter
from workers.monitoring.hardware import Hardware
from workers.monitoring.metrics import HardwareMetrics, WorkerMetrics
from workers.outages import despite_outages
from workers.shutdown import stopping
from workers.stages.work import StageContext

__all__ = ["Worker"]

log = logging.getLogger(__name__)


@dataclass
class Load:
    """Counters of ended batches, of the questions begun in them, and of running batches; updated by pool threads."""

    batches: int = 0
    begun: int = 0
    running: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def of(self, batch: Batch) -> Iterator[None]:
        """Count `batch` as running in the block, and then as ended unless none of its questions was begun."""
        with self._lock:
            self.running += 1
        try:
            yield
        finally:
            with self._lock:
                self.running -= 1
                self.batches += bool(batch.begun)
                self.begun += batch.begun


class Worker:
    """Everything in a worker process besides Celery. Creating it connects to Redis. Raises McqueueError.

    It calls `room_came`, from any thread, when its engine has capacity for another batch.
    """

    def __init__(self, settings: Settings, app: Celery, name: str, queue: str, room_came: Callable[[], object]) -> None:
        self.name = name
        self.state = WorkerState.BOOTING
        self._settings = settings
        self._queue = queue
        self._ledger = RedisLedger.connect(settings)
        self._gpus = os.environ.get("CUDA_VISIBLE_DEVICES", "")
        self._metrics = WorkerMetrics(settings, name, queue, self._gpus)
        context = StageContext(
            settings=settings,
            ledger=self._ledger,
            worker=name,
            send=partial(send, app),
            stopping=stopping,
            committed=self._metrics.committed,
            generated=self._metrics.generated,
        )
        self._job = make_job(context, queue, room_came)
        self._job_is: dict[str, Any] = {}
        self._load = Load()
        self._fleet = Fleet(self._ledger.client)
        self._events = BatchEvents(app, name, task_name(queue))
        self._hardware = Hardware(names_in(self._gpus))
        self._exporter = self._make_exporter()
        self._metrics_at = ""
        self._heart = Heartbeat(settings, self.record, self._metrics.beaten)
        self._janitor = Janitor(settings, app, name, queue)

    def _make_exporter(self) -> Exporter:
        # Not `self._hardware`: a `Hardware` measures the load of the cores since it was last asked.
        hardware = HardwareMetrics(Hardware(names_in(self._gpus)))
        return Exporter(
            [self._metrics.registry, RedisMetrics.connect(self._settings), hardware],
            targets=partial(scrape_targets, Fleet.connect_hurried(self._settings)),
            ready=lambda: self.state is WorkerState.READY,
        )

    def boot(self) -> None:
        """Take the name, requeue what an earlier worker of that name held, boot the engine. Raises McqueueError."""
        had_predecessor = self.name in self._fleet.names()
        boots_before = self._fleet.boots(self.name)
        self._metrics.booted_before(boots_before)
        if self._settings.metrics_port:
            self._metrics_at = self._exporter.start(
                self._settings.metrics_address, self._settings.metrics_port, address.facing(self._settings.redis_place)
            )
        self._fleet.join(self.record())
        if self._fleet.wish(self.name) is Wish.RESTART:
            self._fleet.fulfilled(self.name)  # by this start
        self._heart.start()
        messages = restore_held(self._settings, self.name)
        if messages:
            log.warning("%s of an earlier worker of this name requeued", number(messages, "message"))
        self._janitor.look(thoroughly=had_predecessor)
        self._janitor.start()
        self._start_job()
        boot_pipe.report(boot_pipe.BOOTED)
        # An outage costs no engine, which may have taken minutes to boot.
        despite_outages("a booted worker", partial(self._booted, boots_before), stopping)
        _collect_seldom()

    def _booted(self, boots_before: int) -> None:
        """Record that it has booted, and tell what differs between its engine and those of others."""
        self._fleet.booted(self.name, boots_before + 1)
        others = [each for each in self._fleet.alive() if each.queue == self._queue and each.name != self.name]
        for finding in differing_engines([self.record(), *others]):
            log.warning("%s", finding)

    def _start_job(self) -> None:
        """Boot the engine or open the index, and record how that went."""
        started = time.monotonic()
        gc.disable()  # importing vLLM is half of a boot's work, makes no garbage, and takes a quarter less time so
        try:
            self._job.start()
        except Exception as trouble:
            with contextlib.suppress(LedgerError):
                self._fleet.boot_failed(self.name, self._queue, str(trouble))
            raise
        finally:
            gc.enable()
        self._metrics.booted(time.monotonic() - started)
        self._job_is = self._job.describe()

    def ready(self) -> None:
        """Announce to the fleet, and to the launcher if there is one, that messages are consumed."""
        self.state = WorkerState.READY
        with contextlib.suppress(McqueueError):  # the next heartbeat reports it as well
            self._fleet.beat(self.record())
        log.info("ready: takes question batches for %s", self._job.name, extra={"action": "ready"})
        boot_pipe.report(boot_pipe.READY)

    def run_batch(self, batch: Batch) -> None:
        """Process `batch`, from any pool thread."""
        with self._load.of(batch):
            self._job.run(batch, self._events)
        self._metrics.batch_ended(batch)

    @property
    def most_batches(self) -> int:
        """How many batches may run at a time."""
        return self._job.most_batches

    @property
    def others(self) -> int:
        """Number of other workers on the same queue, updated every two seconds."""
        return self._janitor.others

    def audit_soon(self) -> None:
        """Look for lost messages, as after a connection broke."""
        self._janitor.audit_soon()

    def tell_of_drain(self) -> None:
        """Log what the end of this process waits for."""
        running, within = self._load.running, f"{self._settings.drain_timeout_s:g} s (drain_timeout_s)"
        waits = f" after its running batches ({running}), within {within}" if running else ""
        log.info("stopping%s; other messages are requeued", waits, extra={"action": "draining", "running": running})

    def close(self, *, for_good: bool) -> None:
        """Free the engine or index, and release the name; `for_good`: this process was asked to end.

        What cannot be closed is logged: an exception would hide why the process ends, and keep it from ending, as
        Celery goes on after any but an exit.
        """
        parts = (self._job.close, self._events.close, self._janitor.stop, self._heart.stop, self._exporter.close)
        for close in parts:
            try:
                close()
            except Exception:
                log.exception("the worker ends without having closed everything")
        try:
            self._fleet.leave(self.record(), for_good=for_good)
        except LedgerError as trouble:
            log.warning("the name could not be released; it is free again in %d s: %s", LEASE_S, trouble)

    def break_off(self, *, for_good: bool) -> None:
        """Tell the ledger that this process ends now, without waiting for its batches; `for_good`: it was asked to end.

        Then the command that asked for it is deleted, too: the next worker of this name would obey it.
        """
        self._job.break_off()
        if for_good:
            with contextlib.suppress(LedgerError):
                self._fleet.fulfilled(self.name)

    def record(self) -> WorkerRecord:
        """Return this worker's current record."""
        return WorkerRecord(
            name=self.name,
            model=self._job.name,
            state=self.state,
            queue=self._queue,
            gpus=self._gpus,
            engine=self._job_is,
            adapters=sorted(self._settings.adapters),
            **self._job.standing(),
            batch_size=self._settings.full_batch,
            batches=self._load.batches,
            begun=self._load.begun,
            running=self._load.running,
            busy=self._hardware.busy(),
            metrics_at=self._metrics_at,
            launched=boot_pipe.is_launched(),
            startup_timeout_s=self._settings.server_startup_timeout,
            drain_timeout_s=self._settings.drain_timeout_s,
        )


def _collect_seldom() -> None:
    """Make the garbage collector skip permanent objects and run rarely: a batch's objects are freed without it.

    By default it runs whenever 700 more objects are alive, which is forty questions; here, three thousand.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 10, 10)
