"""The Celery app of the workers: `celery -A workers.app worker --pool threads -n gpu0@%h`, and `… flower`.

Importing this module reads the settings but boots nothing. The engine boots when a worker process starts, in the main
thread, before the first message is taken.
"""

from __future__ import annotations

import atexit
import logging
import os
import signal
import sys
import threading
import warnings
from functools import partial
from typing import Any

from celery import signals
from celery.concurrency import get_implementation
from celery.concurrency.thread import TaskPool
from celery.exceptions import CPendingDeprecationWarning, SecurityWarning

from contract import logs, variables
from contract.commands import MORE_THREADS, NO_THREAD
from contract.errors import EXIT_ENGINE, EXIT_RETRY, McqueueError, SettingsError
from contract.fleet import WorkerState
from contract.keys import unacked_options
from contract.queue import make_celery, task_name
from contract.settings import Settings, load_settings
from workers.hard_exit import end_at_once
from workers.host import boot_pipe
from workers.messages import transport
from workers.messages.aggregator import Aggregator
from workers.messages.batch import Batch
from workers.monitoring.flower_ui import customize_flower
from workers.shutdown import StopSignals, stop, stops_for_good
from workers.worker import Worker

__all__ = ["app"]

log = logging.getLogger(__name__)

#: How long an immediate exit waits for Redis, which may be unreachable.
FAREWELL_S = 1.0


def _settings() -> Settings:
    try:
        return load_settings()
    except McqueueError as trouble:
        sys.exit(f"error: {trouble}")


settings = _settings()
transport.use()
customize_flower(settings)
app = make_celery(settings)
app.conf.worker_consumer = "workers.messages.consumer:Consumer"


class BatchTask(Aggregator):
    """The task of all question batches. Its name, e.g. `mcqueue.score`, depends on the queue it serves."""

    settings = settings
    worker: Worker

    def run_batch(self, batch: Batch) -> None:
        self.worker.run_batch(batch)

    def most_batches(self) -> int:
        return self.worker.most_batches

    def other_workers(self) -> int:
        return self.worker.others

    def audit_soon(self) -> None:
        self.worker.audit_soon()


class Lifecycle:
    """Handlers of Celery's signals."""

    def __init__(self) -> None:
        self._worker: Worker | None = None
        self._ignores_hang_up = False

    def connect(self) -> None:
        """Connect the handlers. Celery swallows their exceptions; only an exit ends the process."""
        signals.setup_logging.connect(self.set_up_logging, weak=False)
        signals.celeryd_init.connect(self.use_own_unacked_keys, weak=False)
        signals.worker_init.connect(self.boot, weak=False)
        signals.worker_ready.connect(self.ready, weak=False)
        signals.worker_shutting_down.connect(self.drain, weak=False)
        signals.worker_shutdown.connect(self.close, weak=False)

    def set_up_logging(self, **_: Any) -> None:
        """Set up logging. The launcher names the worker; one started by hand has its own terminal."""
        logs.set_up(os.environ.get(variables.WORKER_NAME, ""))

    def use_own_unacked_keys(self, sender: str, conf: Any, **_: Any) -> None:
        """Give this worker unacked keys of its own, before any connection is made."""
        # Celery warns about running as root because of pickle; this app only reads JSON.
        warnings.filterwarnings("ignore", category=SecurityWarning)
        warnings.filterwarnings("ignore", category=CPendingDeprecationWarning)  # about a setting that is set here
        conf.broker_transport_options = {**conf.broker_transport_options, **unacked_options(sender)}

    def boot(self, sender: Any, **_: Any) -> None:
        """Boot the worker, or exit with a one-line error and an exit code that says whether a retry can help.

        Celery installs its signal handlers only after this. Until then, SIGTERM and SIGHUP have one that frees the
        engine; but a SIGHUP that is ignored, as under nohup, stays ignored.
        """
        self._ignores_hang_up = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        for number in (signal.SIGTERM, *([] if self._ignores_hang_up else [signal.SIGHUP])):
            signal.signal(number, _exit)
        booted = asked_to_end = False
        try:
            self.set_up_logging()  # Celery only sets up logging after this
            _refuse_other_pools(sender.pool_cls)
            queue = _own_queue()
            # Only the task of this worker's queue: a second one would also gather messages and limit consumption.
            task = BatchTask()
            self._worker = Worker(settings, app, sender.hostname, queue, task.room_came)
            task.name, task.worker = task_name(queue), self._worker
            app.register_task(task)
            self._worker.boot()
            booted = True
        except SystemExit:
            asked_to_end = True  # by SIGTERM or SIGHUP
            raise
        except McqueueError as trouble:
            log.error("%s", trouble)
            boot_pipe.report(str(trouble))
            sys.exit(boot_pipe.exit_code(trouble))
        except Exception as trouble:
            if str(trouble) == NO_THREAD:  # until other programs have ended
                log.error("%s. %s", trouble, MORE_THREADS)
                sys.exit(EXIT_RETRY)
            log.exception("the worker cannot boot")
            sys.exit(EXIT_ENGINE)
        finally:
            if not booted and self._worker is not None:
                self._worker.close(for_good=asked_to_end)

    def ready(self, **_: Any) -> None:
        """Called when Celery consumes messages and has installed its signal handlers.

        Celery's handler of SIGHUP is replaced: without a terminal, it would start the worker again, by a command that
        fails.
        """
        signal.signal(signal.SIGTERM, _drain)
        signal.signal(signal.SIGHUP, signal.SIG_IGN if self._ignores_hang_up else _drain)
        on_signal = StopSignals()
        for number in (signal.SIGINT, signal.SIGQUIT):
            signal.signal(number, on_signal)
        if self._worker is not None:
            self._worker.ready()

    def drain(self, exitcode: int, **_: Any) -> None:
        """Start draining: running batches have `drain_timeout_s`, other messages are requeued."""
        if self._worker is not None and self._worker.state is not WorkerState.DRAINING:
            self._worker.state = WorkerState.DRAINING
            patience = threading.Timer(settings.drain_timeout_s, self._give_up_waiting, (exitcode,))
            patience.daemon = True
            patience.start()
            # In a thread: a handler may interrupt the writing of a line.
            threading.Thread(target=self._worker.tell_of_drain, daemon=True).start()

    def _give_up_waiting(self, exit_code: int) -> None:
        log.critical("the running batches did not end within %g s (drain_timeout_s)", settings.drain_timeout_s)
        if self._worker is not None:
            last = partial(self._worker.break_off, for_good=exit_code == 0)
            farewell = threading.Thread(target=last, daemon=True)
            farewell.start()
            farewell.join(FAREWELL_S)
        end_at_once(exit_code)

    def close(self, **_: Any) -> None:
        """Called after the last batch."""
        if self._worker is not None:
            self._worker.close(for_good=stops_for_good())
            log.info("stopped", extra={"action": "stopped"})


def _exit(*_: Any) -> None:
    sys.exit(0)


def _drain(*_: Any) -> None:
    """Handler of SIGTERM and SIGHUP.

    Celery's own handler writes to the log first, and does nothing more if that fails, as on a full disk.
    """
    stop(0)


def _keep_exit_code() -> None:
    """Give up output that a full disk does not take: Python would exit with 120, as if the worker had failed."""
    for name in ("stdout", "stderr"):
        try:
            getattr(sys, name).flush()
        except (AttributeError, OSError, ValueError):  # there is none, it is full, or closed
            setattr(sys, name, None)


def _own_queue() -> str:
    """Return the queue of this worker: that of the settings' model, or the one given by -Q."""
    queues = list(app.amqp.queues.consume_from)
    if len(queues) != 1:
        raise SettingsError(f"-Q {','.join(queues)}: a worker serves one queue.", hint="Start a worker for each.")
    return str(queues[0])


def _refuse_other_pools(pool: Any) -> None:
    if not issubclass(get_implementation(pool), TaskPool):
        raise SettingsError(
            f"Celery pool {pool!r}: prefork children cannot host vLLM, and solo stops heartbeats.",
            hint="Start the worker with --pool threads.",
        )


atexit.register(_keep_exit_code)
Lifecycle().connect()
