"""The Celery app of the workers: `celery -A workers.app worker --pool threads -n gpu0@%h`, and `… flower`.

Importing this reads the settings and boots nothing. The engine boots when a worker process starts, in the main
thread, before the first message is taken.
"""

from __future__ import annotations

import logging
import os
import sys
import warnings
from typing import Any

from celery import signals
from celery.concurrency import get_implementation
from celery.concurrency.thread import TaskPool
from celery.exceptions import SecurityWarning

from contract import logs
from contract.errors import EXIT_RETRY, McqueueError, RedisUnreachable, SettingsError
from contract.fleet import WorkerState
from contract.keys import unacked_options
from contract.queue import TASK_NAME, make_celery
from contract.settings import Settings, load_settings
from workers.aggregator import Aggregator, Batch
from workers.worker import Worker

__all__ = ["app"]

log = logging.getLogger(__name__)


def _settings() -> Settings:
    try:
        return load_settings()
    except McqueueError as trouble:
        sys.exit(f"error: {trouble}")


settings = _settings()
app = make_celery(settings)


class Score(Aggregator):
    """The task behind every question batch."""

    name = TASK_NAME
    settings = settings
    worker: Worker

    def run_batch(self, batch: Batch) -> None:
        self.worker.run_batch(batch)


class Lifecycle:
    """Celery's signals, and what happens at each."""

    def __init__(self, task: Score) -> None:
        self._task = task
        self._worker: Worker | None = None

    def connect(self) -> None:
        """Listen. Celery swallows a listener's exceptions; only an exit ends the process."""
        signals.setup_logging.connect(self.log_our_way, weak=False)
        signals.celeryd_init.connect(self.own_books, weak=False)
        signals.worker_init.connect(self.boot, weak=False)
        signals.worker_ready.connect(self.ready, weak=False)
        signals.worker_shutting_down.connect(self.drain, weak=False)
        signals.worker_shutdown.connect(self.close, weak=False)

    def log_our_way(self, **_: Any) -> None:
        """The launcher says whose lines these are; a worker started by hand has a terminal of its own."""
        level = logging.getLevelName(os.environ.get("MCQUEUE_LOG_LEVEL", "info").upper())
        logs.set_up(os.environ.get("MCQUEUE_WORKER_NAME", ""), level=level)

    def own_books(self, sender: str, conf: Any, **_: Any) -> None:
        """Give this worker its own record of held messages, before any connection is made."""
        # Celery warns root because of pickle; this app reads JSON and nothing else.
        warnings.filterwarnings("ignore", category=SecurityWarning)
        conf.broker_transport_options = {**conf.broker_transport_options, **unacked_options(sender)}

    def boot(self, sender: Any, **_: Any) -> None:
        """Be ready for messages, or end with one line and an exit code that says whether trying again can help."""
        self.log_our_way()  # Celery sets logging up only after this
        try:
            _refuse_other_pools(sender.pool_cls)
            self._worker = self._task.worker = Worker(settings, app, sender.hostname)
            self._worker.boot()
        except RedisUnreachable as trouble:
            self._give_up(trouble, EXIT_RETRY)
        except McqueueError as trouble:
            self._give_up(trouble, 1)
        except Exception:
            log.exception("the worker cannot boot")
            sys.exit(1)

    def ready(self, **_: Any) -> None:
        """Celery takes messages now."""
        if self._worker is not None:
            self._worker.ready()

    def drain(self, **_: Any) -> None:
        """SIGTERM came: running batches end, the rest goes back."""
        if self._worker is not None:
            self._worker.state = WorkerState.DRAINING

    def close(self, **_: Any) -> None:
        """After the last batch."""
        if self._worker is not None:
            self._worker.close()

    def _give_up(self, trouble: McqueueError, exit_code: int) -> None:
        log.error("error: %s", trouble)
        self.close()
        sys.exit(exit_code)


def _refuse_other_pools(pool: Any) -> None:
    if not issubclass(get_implementation(pool), TaskPool):
        raise SettingsError(
            f"Celery pool {pool!r}: prefork children cannot host vLLM, and solo stops heartbeats.",
            hint="Start the worker with --pool threads.",
        )


score = app.register_task(Score())
Lifecycle(score).connect()
