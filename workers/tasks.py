"""What a batch goes through in either stage, and the scoring stage: questions from the ledger, verdicts into it."""

from __future__ import annotations

import abc
import logging
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from contract import keys
from contract.errors import EngineDead, LedgerError, RunHalted, UnknownRun
from contract.ledger import Ledger
from contract.priority import Priority
from contract.prompts import wants_passages
from contract.queue import MESSAGE_VERSION, QuestionBatch
from contract.settings import Settings
from contract.spec import Judge, RunSpec, Stage
from contract.verdict import Failure, Verdict
from workers.aggregator import Batch, Held, Settlement
from workers.engines.base import Engine
from workers.events import BatchEvents
from workers.pipeline import Item, failed, no_judges, score_batch

__all__ = ["BatchScorer", "BatchWork", "Committed", "Endings", "Send", "Work", "send_on"]

log = logging.getLogger(__name__)

#: A question begun this often without a verdict is begun alone from then on: its company may have died of it.
SUSPECT_FROM = 2
LONGEST_PAUSE_S = 5.0
RETRY_PAUSE_S = 1.0


#: Sends question batches on to a queue.
Send: TypeAlias = Callable[[str, Sequence[QuestionBatch]], object]
#: Told of verdicts once they stand in the ledger, those of one call together.
Committed: TypeAlias = Callable[[Sequence[Verdict]], object]
#: (run, question) → how it ended here: an outcome, where it went on to, or why it was not begun.
Endings: TypeAlias = dict[tuple[str, str], str]


@dataclass(frozen=True, slots=True)
class Work:
    """A question of the batch with what its verdict will say about how it came here."""

    item: Item
    held: Held
    attempts: int


class BatchWork(abc.ABC):
    """Everything that a batch needs, without Celery: so it runs, and is tested, on a MemoryLedger as well."""

    stage: Stage

    def __init__(
        self,
        settings: Settings,
        ledger: Ledger,
        worker: str,
        send: Send,
        stopping: Callable[[], bool] = lambda: False,
        committed: Committed = lambda _: None,
    ) -> None:
        self.settled = 0
        self._committed = committed
        self._stopping = stopping
        self._settings = settings
        self._ledger = ledger
        self._worker = worker
        self._send = send
        self._specs: dict[str, RunSpec] = {}

    @abc.abstractmethod
    def _unfit(self, spec: RunSpec) -> Failure | None:
        """Why this worker must not do this stage for a run of that spec, if so."""

    @abc.abstractmethod
    def _together(self, batch: Batch, works: Sequence[Work]) -> Endings:
        """Do this stage for `works` and say what became of each."""

    def run(self, batch: Batch, events: BatchEvents | None = None) -> None:
        """Score `batch`; settle each of its messages."""
        if events:
            events.started(batch)
        try:
            self._settle_messages(batch, self._do(batch))
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

    def _do(self, batch: Batch) -> Endings:
        """What became of the questions that this batch found unsettled."""
        endings: Endings = {}
        ready: list[Work] = []
        suspects: list[Work] = []
        refused: list[tuple[Work, Verdict]] = []
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
        if ready:
            endings |= self._together(batch, ready)
        for suspect in suspects:
            endings |= self._alone(batch, suspect)
        return endings

    def _begin(self, run_id: str, asked: dict[str, Held]) -> list[Work]:
        """The unsettled ones of `asked`. Suspects come with an attempt that is counted when their turn comes.

        Raises RunHalted; the ledger has put them aside then, and their messages are no longer needed.
        """
        try:
            begun = self._ledger.begin(run_id, list(asked), suspect_from=SUSPECT_FROM, stage=self.stage)
            spec = self._spec(run_id)
        except UnknownRun:
            log.warning("run %s is unknown or purged: %d of its questions are dropped", run_id, len(asked))
            return []
        return [
            Work(Item(each.question, spec), asked[each.question.id], each.attempts + (not each.counted))
            for each in begun
        ]

    def _refusal(self, work: Work) -> Failure | None:
        """Why this worker must not take the question, if so."""
        spec, version = work.item.spec, work.held.version
        if version > MESSAGE_VERSION:
            message = f"message version {version}, this worker reads up to {MESSAGE_VERSION}: update the worker"
            return Failure(type="MessageTooNew", message=message)
        unfit = self._unfit(spec)
        if unfit is not None:
            return unfit
        if work.attempts > self._settings.max_attempts:
            message = f"begun {self._settings.max_attempts} times, and every time its worker died or failed"
            return Failure(type="TooManyAttempts", message=message)
        return None

    def _alone(self, batch: Batch, work: Work) -> Endings:
        """Begin a suspect by itself, so that the ledger knows whom to blame if this worker dies now."""
        log.warning("question %s was begun %d times: alone now", work.item.question.id, work.attempts - 1)
        run_id, question_id = work.held.run_id, work.item.question.id
        try:
            if not self._ledger.begin(run_id, [question_id], stage=self.stage):
                return {}
        except RunHalted as halt:
            return _not_begun(run_id, [question_id], halt)
        return self._together(batch, [work])

    def _completed(self, batch: Batch, work: Work, verdict: Verdict, started_at: float) -> Verdict:
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

    def _commit(self, batch: Batch, verdicts: Sequence[tuple[Work, Verdict]], started_at: float) -> Endings:
        by_run: dict[str, list[Verdict]] = defaultdict(list)
        for work, verdict in verdicts:
            by_run[work.held.run_id].append(self._completed(batch, work, verdict, started_at))
        for run_id, of_run in by_run.items():
            self._commit_one_run(run_id, of_run)
        self._committed([verdict for of_run in by_run.values() for verdict in of_run])
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
        """Every question of every message is settled by now, was sent on, or is put aside in the ledger."""
        for held in batch.held:
            counts = Counter(endings.get((held.run_id, each)) for each in held.question_ids)
            before = counts.pop(None, 0)
            parts = [f"{n} {ending}" for ending, n in sorted((str(ending), n) for ending, n in counts.items())]
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


class BatchScorer(BatchWork):
    """The scoring stage."""

    stage = Stage.SCORE

    def __init__(
        self,
        settings: Settings,
        ledger: Ledger,
        engine: Engine,
        worker: str,
        send: Send,
        stopping: Callable[[], bool] = lambda: False,
        judge_engine: Callable[[Judge], Engine] = no_judges,
        committed: Committed = lambda _: None,
    ) -> None:
        super().__init__(settings, ledger, worker, send, stopping, committed)
        self._judge_engine = judge_engine
        self._engine = engine

    def _unfit(self, spec: RunSpec) -> Failure | None:
        if spec.model != self._settings.served_model:
            message = f"the run asks for {spec.model}, this worker serves {self._settings.served_model}"
            return Failure(type="WrongModel", message=message)
        if spec.vllm_version and spec.vllm_version != (here := self._engine.describe().get("vllm", "none")):
            message = (
                f"the run asks for vLLM {spec.vllm_version}, this worker has {here}: requeue it for another worker"
            )
            return Failure(type="WrongEngine", message=message)
        return None

    def _together(self, batch: Batch, works: Sequence[Work]) -> Endings:
        started_at = time.time()
        works, endings = self._with_passages(works)
        verdicts = score_batch([work.item for work in works], self._engine, self._judge_engine) if works else []
        return endings | self._commit(batch, list(zip(works, verdicts, strict=True)), started_at)

    def _with_passages(self, works: Sequence[Work]) -> tuple[list[Work], Endings]:
        """`works` with what was retrieved for them; a question that still wants passages goes back to get them."""
        ready: list[Work] = []
        astray: list[Work] = []
        for run_id, of_run in _works_by_run(works).items():
            wanting = [each.item.question.id for each in of_run if wants_passages(each.item.question, each.item.spec)]
            found = self._ledger.passages(run_id, wanting)
            for work in of_run:
                question_id = work.item.question.id
                if question_id not in wanting:
                    ready.append(work)
                elif question_id in found:
                    ready.append(replace(work, item=replace(work.item, passages=found[question_id])))
                else:
                    astray.append(work)
        return ready, send_on(self._send, astray, Stage.RETRIEVE, "back to retrieval")


def send_on(send: Send, works: Sequence[Work], stage: Stage, ending: str) -> Endings:
    """Send the questions of `works` to `stage`, in messages as they came, and call what became of them `ending`."""
    by_queue: dict[str, dict[int, QuestionBatch]] = defaultdict(dict)
    for work in works:
        held, queue = work.held, keys.queue_of(stage, work.item.spec)
        message = by_queue[queue].setdefault(
            id(held), QuestionBatch(held.run_id, [], Priority(held.priority), held.published_at)
        )
        message.question_ids.append(work.item.question.id)
    for queue, messages in by_queue.items():
        send(queue, list(messages.values()))
    return {(work.held.run_id, work.item.question.id): ending for work in works}


def _works_by_run(works: Sequence[Work]) -> dict[str, list[Work]]:
    runs: dict[str, list[Work]] = defaultdict(list)
    for work in works:
        runs[work.held.run_id].append(work)
    return runs


def _by_run(batch: Batch) -> dict[str, dict[str, Held]]:
    """Run → question id → the message that brought it; a question that came twice is asked once."""
    runs: dict[str, dict[str, Held]] = defaultdict(dict)
    for held in batch.held:
        for question_id in held.question_ids:
            runs[held.run_id].setdefault(question_id, held)
    return runs
