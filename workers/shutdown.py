"""Stopping this worker after its running batches: on a signal, a command, or because it cannot go on.

A process has one worker, so Celery's own global flags say whether it is stopping: nothing is passed around.
"""

from __future__ import annotations

import logging
import os
import signal
from typing import Any

from celery import signals
from celery.worker import state
from celery.worker.control import control_command

from contract.errors import EXIT_RESTART, EXIT_RETRY
from contract.fleet import Wish
from workers.hard_exit import end_at_once

__all__ = ["StopSignals", "grant", "stop", "stop_without_engine", "stopping", "stops_for_good"]

log = logging.getLogger(__name__)

#: Celery's exit code after SIGINT and SIGQUIT.
EXIT_INTERRUPTED = 1


def stopping() -> bool:
    """Whether this worker is stopping. The flags hold exit codes then, and 0 may be one of them."""
    return any(flag is not None and flag is not False for flag in (state.should_stop, state.should_terminate))


def stops_for_good() -> bool:
    """Whether this worker is stopping because it was asked to end: not to restart, nor because it cannot go on."""
    return stopping() and state.should_stop == 0


def stop(exit_code: int) -> None:
    """Stop this worker after the running batches, from any thread."""
    if not stopping():
        signals.worker_shutting_down.send(sender=None, sig="", how="Warm", exitcode=exit_code)  # as Celery does
        state.should_stop = exit_code


def stop_without_engine(reason: str) -> None:
    """Stop this worker because its engine is gone, from any thread."""
    if not stopping():
        log.critical("%s This worker stops; its messages are requeued.", reason)
        stop(EXIT_RETRY)


def grant(wish: Wish) -> None:
    """Carry out a command to this worker."""
    log.warning("asked to %s", wish)
    if wish is Wish.DRAIN:
        os.kill(os.getpid(), signal.SIGTERM)
    else:
        stop(EXIT_RESTART)


@control_command(name="shutdown")  # type: ignore[untyped-decorator]
def drain_from_afar(_: Any, **__: Any) -> dict[str, str]:
    """Stop after the running batches: `celery control shutdown`.

    Celery's own command ends the event loop from within: with batches running, that ended in a traceback.
    """
    grant(Wish.DRAIN)
    return {"ok": "stopping after its running batches"}


class StopSignals:
    """Handler of SIGINT and SIGQUIT: stop after the running batches, and at the third signal without waiting for them.

    Celery's own handlers of SIGQUIT and of the second SIGINT stop the thread pool inside the handler. If the signal
    arrives while the main thread hands a batch to the pool, that deadlocks.
    """

    def __init__(self) -> None:
        self._times = 0

    def __call__(self, *_: Any) -> None:
        self._times += 1
        if self._times > 2:
            end_at_once(EXIT_INTERRUPTED)
        stop(EXIT_INTERRUPTED)
