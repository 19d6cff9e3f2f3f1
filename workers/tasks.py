"""The one task: take a batch's questions from the ledger, have them scored, commit the verdicts."""

from __future__ import annotations

import logging
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from contract.errors import EngineDead, LedgerError, RunHalted, UnknownRun
from contract.ledger import Ledger
from contract.queue import MESSAGE_VERSION
from contract.settings import Settings
from contract.spec import Judge, RunSpec
from contract.verdict import Failure, Verdict
from workers.aggregator import Batch, Held, Settlement
from workers.engines.base import Engine
from workers.events import BatchEvents
from workers.pipeline import Item, failed, no_judges, score_batch

__all__ = ["BatchScorer"]

log = logging.getLogger(__name__)

#: A question begun this often without a verdict is begun alone from then on: its company may have died of it.
SUSPECT_FROM = 2
LONGEST_PAUSE_S = 5.0
RETRY_PAUSE_S = 1.0


#: (run, question) → how it ended here: an outcome, or why it was not begun.
Endings: TypeAlias = dict[tuple[str, str], str]


@dataclass(frozen=True, slots=True)
class _Work:
    """A question of the batch with what its verdict will say about how it came here."""

    item: Item
    held: Held
    attempts: int


class BatchScorer:
    """Everything that a batch needs, without Celery: so it runs, and is tested, on a MemoryLedger as well."""

    def __init__(
        self,
        settings: Settings,
        ledger: Ledger,
        engine: Engine,
        worker: str,
        stopping: Callable[[], bool] = lambda: False,
        judge_engine: Callable[[Judge], Engine] = no_judges,
    ) -> None:
        self._judge_engine = judge_engine
        self.settled = 0
        self._stopping = stopping
        self._settings = settings
        self._ledger = ledger
        self._engine = engine
        self._worker = worker
        self._specs: dict[str, RunSpec] = {}

    def run(self, batch: Batch, events: BatchEvents | None = None) -> None:
        """Score `batch`; settle each of its messages."""
        if events:
            events.started(batch)
        try:
            outcomes = self._score(batch)
            self._settle_messages(batch, outcomes)
        except EngineDead as trouble:
            batch.fatal = str(trouble)
        except LedgerError as trouble:
            # The messages go back to the queue and come again at once: not in a hot loop.
            log.warning("batch %d goes back to the queue: %s", batch.number, trouble)
            time.sleep(RETRY_PAUSE_S)
        finally:
            if events:
                events.ended(batch)
        self._log(batch)

    def _score(self, batch: Batch) -> Endings:
        """What became of the questions that this batch found unsettled."""
        endings: Endings = {}
        ready: list[_Work] = []
        suspects: list[_Work] = []
        refused: list[tuple[_Work, Verdict]] = []
        for run_id, asked in _by_run(batch).items():
            try:
                begun = self._begin(run_id, asked)
            except RunHalted as halt:
                endings |= _not_begun(run_id, asked, halt)
                continue
            for work in begun:
                refusal = self._refusal(work)
                if refusal is not None:
                    refused.append((work, failed(work.item.question, refusal)))
                else:
                    (ready if work.attempts <= SUSPECT_FROM else suspects).append(work)
        endings |= self._commit(batch, refused, time.time())
        endings |= self._score_together(batch, ready)
        for suspect in suspects:
            endings |= self._score_alone(batch, suspect)
        return endings

    def _begin(self, run_id: str, asked: dict[str, Held]) -> list[_Work]:
        """The unsettled ones of `asked`. Suspects come with an attempt that is counted when their turn comes.

        Raises RunHalted; the ledger has put them aside then, and their messages are no longer needed.
        """
        try:
            begun = self._ledger.begin(run_id, list(asked), suspect_from=SUSPECT_FROM)
            spec = self._spec(run_id)
        except UnknownRun:
            log.warning("run %s is unknown or purged: %d of its questions are dropped", run_id, len(asked))
            return []
        return [
            _Work(Item(each.question, spec), asked[each.question.id], each.attempts + (not each.counted))
            for each in begun
        ]

    def _refusal(self, work: _Work) -> Failure | None:
        """Why this worker must not score the question, if so."""
        spec, version = work.item.spec, work.held.version
        if version > MESSAGE_VERSION:
            message = f"message version {version}, this worker reads up to {MESSAGE_VERSION}: update the worker"
            return Failure(type="MessageTooNew", message=message)
        if spec.model != self._settings.served_model:
            message = f"the run asks for {spec.model}, this worker serves {self._settings.served_model}"
            return Failure(type="WrongModel", message=message)
        if work.attempts > self._settings.max_attempts:
            message = f"begun {self._settings.max_attempts} times, and every time its worker died or failed"
            return Failure(type="TooManyAttempts", message=message)
        return None

    def _score_together(self, batch: Batch, works: Sequence[_Work]) -> Endings:
        if not works:
            return {}
        started_at = time.time()
        verdicts = score_batch([work.item for work in works], self._engine, self._judge_engine)
        return self._commit(batch, list(zip(works, verdicts, strict=True)), started_at)

    def _score_alone(self, batch: Batch, work: _Work) -> Endings:
        """Begin a suspect by itself, so that the ledger knows whom to blame if this worker dies now."""
        log.warning("question %s was begun %d times: alone now", work.item.question.id, work.attempts - 1)
        run_id, question_id = work.held.run_id, work.item.question.id
        try:
            if not self._ledger.begin(run_id, [question_id]):
                return {}
        except RunHalted as halt:
            return _not_begun(run_id, [question_id], halt)
        return self._score_together(batch, [work])

    def _completed(self, batch: Batch, work: _Work, verdict: Verdict, started_at: float) -> Verdict:
        return verdict.model_copy(
            update={
                "attempts": work.attempts,
                "batch_id": f"{self._worker}/{batch.number}",
                "batch_size": batch.questions,
                "worker": self._worker,
                "queued_ms": max(0.0, (started_at - work.held.published_at) * 1000),
                "settled_at": time.time(),
            }
        )

    def _commit(self, batch: Batch, verdicts: Sequence[tuple[_Work, Verdict]], started_at: float) -> Endings:
        by_run: dict[str, list[Verdict]] = defaultdict(list)
        for work, verdict in verdicts:
            by_run[work.held.run_id].append(self._completed(batch, work, verdict, started_at))
        for run_id, of_run in by_run.items():
            self._commit_one_run(run_id, of_run)
        return {(work.held.run_id, verdict.question_id): verdict.outcome.value for work, verdict in verdicts}

    def _commit_one_run(self, run_id: str, verdicts: list[Verdict]) -> None:
        """Commit, however long Redis is away: scored work is not thrown away for a restart of the server.

        Only when this worker is told to stop meanwhile, it gives up; the questions stay unsettled and are asked again.
        """
        pause_s = 0.1
        while True:
            try:
                self.settled += self._ledger.commit(run_id, verdicts).new
            except UnknownRun:
                log.warning("run %s was purged: %d verdicts are dropped", run_id, len(verdicts))
            except LedgerError as trouble:
                if not trouble.retryable or self._stopping():
                    raise
                log.warning("%d verdicts wait for the ledger: %s", len(verdicts), trouble)
                time.sleep(pause_s)
                pause_s = min(pause_s * 2, LONGEST_PAUSE_S)
                continue
            return

    def _settle_messages(self, batch: Batch, endings: Endings) -> None:
        """Every question of every message is settled by now, by this batch or before it, or put aside in the ledger."""
        for held in batch.held:
            counts = Counter(endings.get((held.run_id, each)) for each in held.question_ids)
            before = counts.pop(None, 0)
            parts = [f"{n} {ending}" for ending, n in sorted(counts.items(), key=str)]
            held.summary = ", ".join(parts + ([f"{before} settled before"] if before else []))
            held.settlement = Settlement.ACKNOWLEDGE

    def _spec(self, run_id: str) -> RunSpec:
        if run_id not in self._specs:
            self._specs[run_id] = self._ledger.run(run_id).spec
        return self._specs[run_id]

    def _log(self, batch: Batch) -> None:
        seconds = time.time() - batch.started_at
        fill = batch.questions / self._settings.batch_size
        log.info(
            "batch %d: %d questions in %.2f s, %.1f questions/s, fill %.0f %%, flushed by %s%s",
            batch.number,
            batch.questions,
            seconds,
            batch.questions / seconds if seconds else 0.0,
            100 * fill,
            batch.flush,
            f": {batch.fatal}" if batch.fatal else "",
            extra={
                "action": "batch_done",
                "batch": batch.number,
                "questions": batch.questions,
                "seconds": seconds,
                "flush": batch.flush,
                "waited_s": batch.waited_s,
            },
        )


def _not_begun(run_id: str, question_ids: Iterable[str], halt: RunHalted) -> Endings:
    log.info("run %s is %s: its questions are not begun", run_id, halt.state)
    return {(run_id, each): f"not begun: {halt.state}" for each in question_ids}


def _by_run(batch: Batch) -> dict[str, dict[str, Held]]:
    """Run → question id → the message that brought it; a question that came twice is asked once."""
    runs: dict[str, dict[str, Held]] = defaultdict(dict)
    for held in batch.held:
        for question_id in held.question_ids:
            runs[held.run_id].setdefault(question_id, held)
    return runs
