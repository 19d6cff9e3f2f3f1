"""The janitor: a thread of every worker that requeues dead workers' messages, audits runs, and shares queues fairly.

Every worker does this for all, so it works whether workers were launched together, by hand, or on other hosts.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from functools import cache

from celery import Celery

from contract import keys
from contract.audit import heal, in_messages, lacks_any, looks_stalled
from contract.connection import translating
from contract.errors import (
    LedgerError,
    McqueueError,
    RedisUnreachable,
    UnknownRun,
    UnreadableRun,
    WritesRefused,
)
from contract.fair_share import level_if_due
from contract.fleet import LEASE_S, Fleet, WorkerState
from contract.ledger import RedisLedger, Run
from contract.locks import claim
from contract.queue import restore_held
from contract.settings import Settings
from contract.wording import number
from workers.retries import reason_of
from workers.rounds import Rounds
from workers.stall import StallWatch

__all__ = ["Janitor"]

log = logging.getLogger(__name__)


class Janitor(Rounds):
    """Requeues messages of dead workers, resends lost questions, and keeps the queue in fair order."""

    def __init__(self, settings: Settings, app: Celery, worker: str, queue: str) -> None:
        super().__init__("janitor")
        self._queue = queue
        self._worker = worker
        self._audit_asked = threading.Event()
        self._settings = settings
        self._app = app
        # A separate connection: a generate call or a commit in another thread never waits for a round.
        self._ledger = RedisLedger.connect(settings)
        self._fleet = Fleet(self._ledger.client)
        #: Runs that looked stalled in the last round.
        self._stalled: set[str] = set()
        self._quiet = StallWatch()
        #: The open runs of all queues.
        self._open: dict[str, Run] = {}
        #: Runs that this version cannot read, each reported once.
        self._unreadable: set[str] = set()
        #: Runs that no ready worker of this queue can go on with now.
        self._put_off: set[str] = set()
        #: Number of other ready workers on this worker's queue.
        self.others = 0
        #: Until then, by the monotonic clock, an expired lease does not mean a dead worker.
        self._leases_count_from = 0.0

    def round(self) -> None:
        """Count workers, restore messages, and audit runs."""
        try:
            self._look_after_all()
        except LedgerError:
            # No worker could renew its lease: all get the time to do so.
            self._leases_count_from = time.monotonic() + LEASE_S
            raise

    def _look_after_all(self) -> None:
        there = (each for each in self._fleet.alive() if each.queue == self._queue)
        ready = [each for each in there if each.state is WorkerState.READY]
        self.others = sum(each.name != self._worker for each in ready)
        self._put_off = set.intersection(*(set(each.puts_off) for each in ready)) if ready else set()
        for name in self._dead():
            if self._restore(name):
                self._audit_asked.set()
        asked = self._audit_asked.is_set()
        self._audit_asked.clear()  # cleared first: a reconnect meanwhile asks for another round
        try:
            self.look(thoroughly=asked)
        except LedgerError:  # Redis is still unavailable: retry in the next round
            if asked:
                self._audit_asked.set()
            raise

    def _dead(self) -> list[str]:
        if time.monotonic() < self._leases_count_from:
            return []
        return [name for name in self._fleet.dead() if name != self._worker]

    def audit_soon(self) -> None:
        """Audit all runs in the next round: a connection that breaks may lose a message on its way to this worker."""
        self._audit_asked.set()

    def look(self, *, thoroughly: bool) -> None:
        """Resend lost questions, and make the runs of this queue take turns.

        `thoroughly` audits all runs, as after a worker died; otherwise only stalled ones.
        """
        self._open, unreadable = self._ledger.read_open_runs(self._open)
        for run_id, trouble in unreadable.items():
            self._tell_unreadable(run_id, trouble)
        asked = (run for run in self._open.values() if not run.spec.rescored_from)  # others are in no message
        here = [run for run in asked if self._queue in keys.route(run.spec)]
        self._quiet.keep_only({run.run_id for run in here})
        self._audit(here, thoroughly=thoroughly)
        if len(here) + len(unreadable) > 1:  # the latter may be of this queue, too
            level_if_due(self._ledger, self._queue, self._put_off)

    def _tell_unreadable(self, run_id: str, trouble: UnreadableRun) -> None:
        if run_id not in self._unreadable:
            self._unreadable.add(run_id)
            log.warning("run %s: audit skipped: %s", run_id, trouble)

    def _audit(self, runs: Sequence[Run], *, thoroughly: bool) -> None:
        """Audit `runs`; one that cannot be audited does not affect the others. A Redis that is away fails all."""
        stalled: set[str] = set()
        # Read once in a round: for each run anew, a hundred runs would take a hundred times as long.
        accounted = cache(lambda: in_messages(self._ledger, runs))
        for run in runs:
            try:
                suspected = thoroughly or self._is_due(run)
                due = suspected and lacks_any(self._ledger, run, accounted().get(run.run_id, ()))
                if not due and looks_stalled(self._ledger, run):
                    stalled.add(run.run_id)
                    due = run.run_id in self._stalled  # twice in a row: once may be a message in flight
                if due:
                    self._heal(run)
            except UnknownRun:  # purged meanwhile, as the HTTP server does after each request
                continue
            except UnreadableRun as trouble:
                self._tell_unreadable(run.run_id, trouble)
            except (RedisUnreachable, WritesRefused):
                raise
            except Exception as trouble:
                unexpected = not isinstance(trouble, McqueueError)
                log.warning("run %s: audit skipped: %s", run.run_id, reason_of(trouble), exc_info=unexpected)
        self._stalled = stalled

    def _restore(self, name: str) -> bool:
        """Requeue the messages of dead worker `name`. Return whether to audit all runs.

        That is so if some were requeued, and if none were on record: it may have died between taking a message and
        recording it.
        """
        with translating(self._ledger.client):
            holds_none = not self._ledger.client.exists(keys.unacked(name))
        if holds_none:
            self._fleet.forget(name)
            return True
        with translating(self._ledger.client):
            if not claim(self._ledger.client, keys.restore_lock(name)):
                return False
        messages = restore_held(self._settings, name)
        log.warning("worker %s is gone: %s requeued", name, number(messages, "message"))
        return messages > 0

    def _is_due(self, run: Run) -> bool:
        """Whether to audit the run because none of its questions was settled for long."""
        return self._quiet.is_due(run.run_id, self._ledger.counts(run.run_id).settled, time.monotonic())

    def _heal(self, run: Run) -> None:
        questions, messages = heal(self._ledger, self._app, run, self._settings.question_batch_size)
        if questions:
            lost = number(questions, "question")
            log.warning("run %s: %s in no message; re-sent in %d", run.run_id, lost, messages)
