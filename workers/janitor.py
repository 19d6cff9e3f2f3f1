"""What every worker does on the side: beat, put dead workers' messages back, and look for what the broker lost.

Every worker does it for all, so it works whether workers were launched together, by hand, or on other hosts.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from celery import Celery
from redis import RedisError

from contract import keys
from contract.audit import looks_stalled, send_missing
from contract.errors import McqueueError
from contract.fleet import Fleet, WorkerRecord
from contract.ledger import RedisLedger
from contract.queue import restore_held
from contract.settings import Settings

__all__ = ["Janitor"]

log = logging.getLogger(__name__)

ROUND_S = 2.0


class Janitor(threading.Thread):
    """A thread that makes its round every two seconds until stopped."""

    def __init__(self, settings: Settings, app: Celery, record: Callable[[], WorkerRecord]) -> None:
        super().__init__(name="janitor", daemon=True)
        self._settings = settings
        self._app = app
        self._record = record
        # A connection of its own: a generate call or a commit in another thread never waits for a round.
        self._ledger = RedisLedger.connect(settings)
        self._fleet = Fleet(self._ledger.client)
        self._stopped = threading.Event()
        self._stalled: set[str] = set()

    def run(self) -> None:
        while not self._stopped.wait(ROUND_S):
            try:
                self.round()
            except (McqueueError, RedisError) as trouble:
                log.warning("round skipped: %s", trouble)

    def stop(self) -> None:
        """End after the round under way, and give the worker's name back."""
        self._stopped.set()
        self.join(timeout=10)
        try:
            self._fleet.leave(self._record().name)
        except RedisError as trouble:
            log.warning("name not given back: %s", trouble)

    def round(self) -> None:
        """Beat, restore, audit."""
        self._fleet.beat(self._record())
        for name in self._fleet.dead():
            self._restore(name)
        self._audit()

    def _restore(self, name: str) -> None:
        if not self._ledger.client.exists(keys.unacked(name)):
            self._fleet.forget(name)
        elif self._fleet.claim(keys.restore_lock(name)):
            messages = restore_held(self._settings, name)
            log.warning("worker %s is gone: %d of its messages are back on the queue", name, messages)

    def _audit(self) -> None:
        """Send again what is stalled in two rounds in a row; once may be a message on its way."""
        stalled = set()
        for run_id in self._ledger.open_runs():
            run = self._ledger.run(run_id)
            if run.spec.model != self._settings.served_model or not looks_stalled(self._ledger, run):
                continue
            stalled.add(run_id)
            if run_id in self._stalled and self._fleet.claim(keys.audit_lock(run_id)):
                questions, messages = send_missing(self._ledger, self._app, run, self._settings.question_batch_size)
                log.warning("run %s: %d questions were in no message; sent again in %d", run_id, questions, messages)
        self._stalled = stalled
