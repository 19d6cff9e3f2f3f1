"""What a worker writes into the ledger about a batch's questions: verdicts, failed attempts, and its engine."""

from __future__ import annotations

import contextlib
import logging
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache, partial
from typing import Any, TypeVar

from contract.engine_info import EngineUsed
from contract.errors import LedgerError, UnknownRun, WritesRefused
from contract.ledger import new_call
from contract.spec import Stage
from contract.verdict import Failure, Verdict
from contract.wording import number
from workers.messages.batch import Batch, HeldMessage
from workers.outages import despite_outages
from workers.retries import pause_s, too_many
from workers.stages.work import AGAIN, KNOWN_RUNS, Endings, Settled, StageContext, Work, by_run
from workers.verdicts import Provenance, failed

__all__ = ["Recorder"]

log = logging.getLogger(__name__)

T = TypeVar("T")


class Recorder:
    """One stage's writes into the ledger. Thread-safe."""

    def __init__(self, context: StageContext, stage: Stage, describe_engine: Callable[[str], dict[str, Any]]) -> None:
        """`describe_engine` describes the engine that answers the run of that id; empty if none does."""
        self._settings = context.settings
        self._ledger = context.ledger
        self._worker = context.worker
        self._stopping = context.stopping
        self._committed = context.committed
        self._stage = stage
        #: When this process began, and its engine with it. Not when a verdict is written: of two threads, the first one
        #: to write need not have settled first, and no verdict may be older than the record of its engine.
        self._since = time.time()
        self._done = 0
        self._counting = threading.Lock()
        #: By thread: why the call fails that it repeats.
        self._waiting: dict[int, LedgerError] = {}
        #: Distinguishes this process from others of its name, which number their batches from 1, too.
        self._process = secrets.token_hex(3)
        self._describe_engine = describe_engine
        #: Cached at a run's first verdicts. Describing it each time would cost milliseconds per batch.
        self._engine_of: Callable[[str], EngineUsed | None] = lru_cache(KNOWN_RUNS)(self._find_engine)

    @property
    def done(self) -> int:
        """Number of questions settled or sent on by this stage so far."""
        return self._done

    @property
    def refused(self) -> str:
        """Why Redis refuses what waits to be written; empty: it does not."""
        return next((str(each) for each in list(self._waiting.values()) if isinstance(each, WritesRefused)), "")

    def count_done(self, questions: int) -> None:
        """Add to `done`."""
        with self._counting:
            self._done += questions

    def provenances(self, batch: Batch, begun: Iterable[tuple[HeldMessage, int]]) -> list[Provenance]:
        """Return the provenance of each question of `begun`, its message and attempts, for its verdict."""
        now = time.time()
        same: Provenance = {
            "batch_id": f"{self._worker}/{self._process}/{batch.number}",
            "batch_size": batch.questions,
            "worker": self._worker,
            "simulated": self._settings.engine == "simulated",
        }
        return [
            {**same, "attempts": attempts, "queued_ms": max(0.0, (now - held.published_at) * 1000)}
            for held, attempts in begun
        ]

    def failed(self, batch: Batch, held: HeldMessage, question_id: str, attempts: int, failure: Failure) -> Settled:
        """Return the verdict of a question that is given up, for `commit`."""
        (provenance,) = self.provenances(batch, [(held, attempts)])
        return Settled(held, failed(question_id, failure, provenance))

    def commit(self, run_id: str, settled: Sequence[Settled], *, asked: bool = True) -> Endings:
        """Write the verdicts on questions of one run, and return their outcomes. Those of a purged run are dropped.

        If these questions were `asked`, the engine that answered them is recorded with them.
        """
        verdicts = [each.verdict for each in settled]
        stand: Sequence[Verdict] = []
        try:
            write = partial(self._write, run_id, verdicts, asked=asked)
            stand = self.despite_outages(number(len(verdicts), "verdict"), write)
        except UnknownRun:
            log.warning("run %s was purged: %s dropped", run_id, number(len(verdicts), "verdict"))
        self.count_done(len(stand))
        self._committed(stand)
        return {(run_id, each.question_id): each.outcome for each in verdicts}

    def despite_outages(self, what: str, call: Callable[[], T]) -> T:
        """Return the result of `call`, which asks the ledger; repeat it as long as Redis is unavailable.

        So scored questions survive a restart of Redis, and an outage costs no attempt. The ledger may have executed
        a call whose answer was lost: what counts something has a `new_call`, made before. `what` names what waits, for
        the log.

        Raises LedgerError if waiting cannot help, or once this worker is stopping; the questions then stay unsettled
        and are asked again.
        """
        thread = threading.get_ident()
        try:
            return despite_outages(what, call, self._stopping, partial(self._waiting.__setitem__, thread))
        finally:
            self._waiting.pop(thread, None)

    def retry_or_fail(self, batch: Batch, held: HeldMessage, question_id: str, attempts: int, reason: str) -> Endings:
        """Record a failed attempt: retry the question after a pause, or give it up with all reasons."""
        said = f"{self._worker}: {reason}"
        note = partial(self._ledger.note_trouble, held.run_id, [question_id], said, new_call())
        try:
            (known,) = self.despite_outages("1 failed attempt", note)
        except UnknownRun:
            return {}
        if not known:  # settled meanwhile through another message
            return {}
        attempts = max(attempts, known)
        if attempts < self._settings.max_attempts:
            log.warning("question %s: attempt %d failed: %s", question_id, attempts, reason)
            batch.retry_after_s = max(batch.retry_after_s, pause_s(attempts))
            return {(held.run_id, question_id): AGAIN}
        error = self.exhausted(held.run_id, question_id, attempts)
        return self.commit(held.run_id, [self.failed(batch, held, question_id, attempts, error)])

    def exhausted(self, run_id: str, question_id: str, attempts: int) -> Failure:
        """Return the failure of a question after so many attempts, the last."""
        reasons = self.despite_outages("1 failed question", partial(self._ledger.troubles, run_id, question_id))
        return too_many(attempts, reasons)

    def note_reason(self, works: Sequence[Work], reason: str) -> None:
        """Record why these attempts failed; if the ledger is unavailable, they have no reason."""
        for run_id, of_run in by_run(works).items():
            with contextlib.suppress(LedgerError):
                self._ledger.note_trouble(run_id, [each.question_id for each in of_run], f"{self._worker}: {reason}")

    def uncount(self, works: Sequence[Work | Settled]) -> None:
        """Take the attempts at `works` back; if the ledger is unavailable, they stay counted."""
        for run_id, of_run in by_run(works).items():
            with contextlib.suppress(LedgerError):
                self._ledger.uncount(run_id, [each.question_id for each in of_run], self._stage)

    def _write(self, run_id: str, verdicts: Sequence[Verdict], *, asked: bool) -> list[Verdict]:
        return self._ledger.commit(run_id, verdicts, self._engine_of(run_id) if asked else None)

    def _find_engine(self, run_id: str) -> EngineUsed | None:
        """Return the engine that answers the run. It is recorded, as a worker of this name may have another later."""
        engine = self._describe_engine(run_id)
        return EngineUsed(worker=self._worker, since=self._since, engine=engine) if engine else None
