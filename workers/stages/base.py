"""What a batch goes through in either stage: its questions begun, tried, settled; its messages settled after them."""

from __future__ import annotations

import abc
import contextlib
import logging
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from importlib import metadata
from typing import Any

from contract.engine_info import EngineUsed
from contract.errors import EngineDead, LedgerError, RunHalted, UnknownRun
from contract.ledger import UNCOUNTED
from contract.queue import MESSAGE_VERSION
from contract.spec import RunSpec, Stage
from contract.verdict import Failure, Verdict
from workers.messages.batch import Batch, HeldMessage, Settlement
from workers.monitoring.events import BatchEvents
from workers.pipeline import Item, Provenance, failed
from workers.retries import LONGEST_PAUSE_S, pause_s, reason_of, too_many
from workers.stages.isolation import Isolation
from workers.stages.work import Endings, NotNow, Settled, StageContext, Work, asked_by_run, by_run

__all__ = ["BatchWork"]

log = logging.getLogger(__name__)

#: A question begun this often without a verdict is begun alone from then on: its company may have died of it.
SUSPECT_FROM = 2
#: Runs whose spec a worker remembers.
KNOWN_RUNS = 256
RETRY_PAUSE_S = 1.0
#: The ending of a question whose attempt failed and is not the last: its message goes back to the queue.
AGAIN = "to be tried again"


class BatchWork(abc.ABC):
    """Everything that a batch needs, without Celery: so it runs, and is tested, on a MemoryLedger as well."""

    stage: Stage

    def __init__(self, workplace: StageContext) -> None:
        #: Questions that this stage is done with: settled, or sent on.
        self.done = 0
        self._settings = workplace.settings
        self._ledger = workplace.ledger
        self._worker = workplace.worker
        self._send = workplace.send
        self._stopping = workplace.stopping
        self._committed = workplace.committed
        #: Of the last runs only: the HTTP door makes one of every request.
        self._spec: Callable[[str], RunSpec] = lru_cache(KNOWN_RUNS)(lambda run_id: self._ledger.run(run_id).spec)
        #: By run, as it was when the run first came. Asking each time would take milliseconds of a batch.
        self._engine_of: Callable[[str], dict[str, Any]] = lru_cache(KNOWN_RUNS)(lambda _: self._engine_and_version())
        self._isolation = Isolation()
        #: Run → why its questions go back to the queue from here at the moment.
        self._puts_off: dict[str, str] = {}
        #: By batch, what is begun and has no verdict yet.
        self._under_way: dict[int, Sequence[Work]] = {}

    @property
    def asks_alone(self) -> bool:
        """Whether a suspect is under way by itself, or waits until it may be."""
        return self._isolation.wanted_alone

    @property
    def puts_off(self) -> dict[str, str]:
        """Run → why its questions go back to the queue from here at the moment."""
        return dict(self._puts_off)

    def _hindrance(self, spec: RunSpec) -> str:  # noqa: ARG002 - for stages that have some
        """Why this worker cannot do this stage for a run of that spec now, though it may later; empty where it can."""
        return ""

    @abc.abstractmethod
    def _unfit(self, spec: RunSpec) -> Failure | None:
        """Why this worker must never do this stage for a run of that spec; None where it may."""

    def _describe_engine(self) -> dict[str, Any]:
        """What the engine that answers says of itself; nothing where none does."""
        return {}

    @abc.abstractmethod
    def _perform(self, batch: Batch, works: Sequence[Work]) -> Iterator[Endings]:
        """Do this stage for `works`, and say part by part what became of them. A part stands if a later one fails."""

    def run(self, batch: Batch, events: BatchEvents | None = None) -> None:
        """Do this stage for `batch`, and settle each of its messages."""
        if events:
            events.started(batch)
        try:
            self._settle_messages(batch, self._do(batch))
        except EngineDead as trouble:
            batch.fatal = str(trouble)
        except LedgerError as trouble:
            log.warning("batch %d goes back to the queue: %s", batch.number, trouble)
            batch.pause_s = RETRY_PAUSE_S
        finally:
            if events:
                events.ended(batch)
        self._log(batch)
        self._rest(batch.pause_s)

    def note_under_way(self, reason: str) -> None:
        """Keep in the ledger why all that is begun will get no verdict from this process. From any thread."""
        for works in list(self._under_way.values()):
            self._note(works, reason)

    def _do(self, batch: Batch) -> Endings:
        """What became of the questions that this batch found unsettled."""
        with self._isolation.shared():
            endings, suspects = self._do_all_but_suspects(batch)
        for suspect in suspects:
            with self._isolation.exclusive():
                endings |= self._alone(batch, suspect)
        return endings

    def _do_all_but_suspects(self, batch: Batch) -> tuple[Endings, list[Work]]:
        """What became of all but the suspects, and these, who are not begun yet."""
        endings: Endings = {}
        ready: list[Work] = []
        suspects: list[Work] = []
        refused: list[Settled] = []
        for run_id, asked in asked_by_run(batch).items():
            begun, not_begun = self._begin_what_can_be(batch, run_id, asked)
            endings |= not_begun
            unfit = self._unfit(begun[0].item.spec) if begun else None
            if begun and unfit is None:
                self._introduce(run_id)
            for work in begun:
                refusal = self._refusal(work, unfit)
                if refusal is not None:
                    attempts = min(work.attempts, self._settings.max_attempts)  # a last one is not begun
                    refused.append(self._failed(batch, work.held, work.item.question.id, attempts, refusal))
                else:
                    (ready if work.attempts <= SUSPECT_FROM else suspects).append(work)
        endings |= self._commit(refused)
        if ready:
            endings |= self._attempt(batch, ready)
        return endings, suspects

    def _begin_what_can_be(
        self, batch: Batch, run_id: str, asked: dict[str, HeldMessage]
    ) -> tuple[list[Work], Endings]:
        """Those that `_begin` begins, and the endings of the others: halted, put off, or unreadable."""
        try:
            return self._begin(run_id, asked), {}
        except RunHalted as halt:
            self._puts_off.pop(run_id, None)
            return [], _not_begun(run_id, asked, halt)
        except NotNow as why:
            return [], self._put_off(batch, run_id, asked, str(why))
        except LedgerError:
            raise
        except Exception as trouble:  # noqa: BLE001 - an unreadable question must not cost its batch
            if len(asked) == 1:
                ((question_id, held),) = asked.items()
                return [], self._troubled(batch, held, question_id, 0, reason_of(trouble))
            log.warning("%d questions of %s cannot be read together: %s", len(asked), run_id, reason_of(trouble))
        parts = [self._begin_what_can_be(batch, run_id, {each: held}) for each, held in asked.items()]
        begun = [work for works, _ in parts for work in works]
        return begun, {each: ending for _, endings in parts for each, ending in endings.items()}

    def _begin(self, run_id: str, asked: dict[str, HeldMessage]) -> list[Work]:
        """Begin the unsettled ones of `asked`. A suspect's attempt is counted later, when it is begun alone.

        Raises RunHalted for a paused or cancelled run, whose questions the ledger has put aside: their messages are no
        longer needed. Raises NotNow where something hinders this worker.
        """
        try:
            spec = self._spec(run_id)
            hindrance = self._hindrance(spec)
            suspect_from = UNCOUNTED if hindrance else SUSPECT_FROM
            begun = self._ledger.begin(run_id, list(asked), suspect_from=suspect_from, stage=self.stage)
        except UnknownRun:
            self._puts_off.pop(run_id, None)
            log.warning("run %s is unknown or purged: %d of its questions are dropped", run_id, len(asked))
            return []
        if hindrance and begun:
            raise NotNow(hindrance)
        self._puts_off.pop(run_id, None)
        return [
            Work(Item(each.question, spec), asked[each.question.id], each.attempts + (not each.counted))
            for each in begun
        ]

    def _put_off(self, batch: Batch, run_id: str, asked: Iterable[str], why: str) -> Endings:
        """Send their messages back for another worker, or for this one later. That counts as no attempt."""
        if self._puts_off.get(run_id) != why:
            log.warning("run %s is put off: %s", run_id, why)
        self._puts_off[run_id] = why
        batch.pause_s = max(batch.pause_s, RETRY_PAUSE_S)
        return {(run_id, each): AGAIN for each in asked}

    def _refusal(self, work: Work, unfit: Failure | None) -> Failure | None:
        """Why this worker must not take the question; None where it may. `unfit`: why it must take none of the run."""
        version = work.held.version
        if version > MESSAGE_VERSION:
            message = f"message version {version}, this worker reads up to {MESSAGE_VERSION}: update the worker"
            return Failure(type="MessageTooNew", message=message)
        if unfit is not None:
            return unfit
        if work.attempts > self._settings.max_attempts:
            reasons = self._ledger.troubles(work.held.run_id, work.item.question.id)
            return too_many(self._settings.max_attempts, reasons)
        return None

    def _alone(self, batch: Batch, work: Work) -> Endings:
        """Begin a suspect while nothing else is under way: if this worker dies now, the ledger knows whom to blame."""
        log.warning("question %s was begun %d times: alone now", work.item.question.id, work.attempts - 1)
        run_id, question_id = work.held.run_id, work.item.question.id
        try:
            if not self._ledger.begin(run_id, [question_id], stage=self.stage):
                return {}
        except RunHalted as halt:
            return _not_begun(run_id, [question_id], halt)
        except UnknownRun:
            return {}
        return self._attempt(batch, [work])

    def _attempt(self, batch: Batch, works: Sequence[Work]) -> Endings:
        """Do the stage for `works`; after an unforeseen error, for their halves, down to the question at fault."""
        endings: Endings = {}
        self._under_way[batch.number] = works
        try:
            for ended in self._perform(batch, works):
                endings |= ended
            return endings
        except EngineDead as trouble:
            self._note(works, reason_of(trouble))
            raise
        except LedgerError:
            raise
        except Exception as trouble:
            left = [work for work in works if (work.held.run_id, work.item.question.id) not in endings]
            if len(left) == 1:
                (work,) = left
                question_id, reason = work.item.question.id, reason_of(trouble)
                log.exception("question %s", question_id)
                return endings | self._troubled(batch, work.held, question_id, work.attempts, reason)
            log.warning("%d questions failed together, halving them: %s", len(left), reason_of(trouble))
        finally:
            del self._under_way[batch.number]
        middle = len(left) // 2
        return endings | self._attempt(batch, left[:middle]) | self._attempt(batch, left[middle:])

    def _troubled(self, batch: Batch, held: HeldMessage, question_id: str, attempts: int, reason: str) -> Endings:
        """An attempt failed for `reason`: the question comes again after a pause, or it is failed with all reasons."""
        try:
            (known,) = self._ledger.note_trouble(held.run_id, [question_id], f"{self._worker}: {reason}")
        except UnknownRun:
            return {}
        if not known:  # settled meanwhile, by another message
            return {}
        attempts = max(attempts, known)
        if attempts < self._settings.max_attempts:
            log.warning("question %s: attempt %d failed: %s", question_id, attempts, reason)
            batch.pause_s = max(batch.pause_s, pause_s(attempts))
            return {(held.run_id, question_id): AGAIN}
        error = too_many(attempts, self._ledger.troubles(held.run_id, question_id))
        return self._commit([self._failed(batch, held, question_id, attempts, error)])

    def _note(self, works: Sequence[Work], reason: str) -> None:
        """Keep the reason in the ledger; while that is away, the attempt stays one without a reason."""
        for run_id, of_run in by_run(works).items():
            with contextlib.suppress(LedgerError):
                self._ledger.note_trouble(
                    run_id, [each.item.question.id for each in of_run], f"{self._worker}: {reason}"
                )

    def _rest(self, seconds: float) -> None:
        """Wait, as what goes back to the queue comes again at once; no longer than until the worker is told to end."""
        until = time.monotonic() + seconds
        while (left_s := until - time.monotonic()) > 0 and not self._stopping():
            time.sleep(min(0.1, left_s))

    def _journey(self, batch: Batch, held: HeldMessage, attempts: int) -> Provenance:
        """What its verdict will say of how a question came here."""
        return {
            "attempts": attempts,
            "batch_id": f"{self._worker}/{batch.number}",
            "batch_size": batch.questions,
            "worker": self._worker,
            "simulated": self._settings.engine == "simulated",
            "queued_ms": max(0.0, (time.time() - held.published_at) * 1000),
        }

    def _failed(self, batch: Batch, held: HeldMessage, question_id: str, attempts: int, failure: Failure) -> Settled:
        return Settled(held, failed(question_id, failure, self._journey(batch, held, attempts)))

    def _commit(self, settled: Sequence[Settled]) -> Endings:
        verdicts: dict[str, list[Verdict]] = defaultdict(list)
        for each in settled:
            verdicts[each.held.run_id].append(each.verdict)
        for run_id, of_run in verdicts.items():
            self._commit_one_run(run_id, of_run)
        self._committed([verdict for of_run in verdicts.values() for verdict in of_run])
        return {(each.held.run_id, each.verdict.question_id): each.verdict.outcome.value for each in settled}

    def _commit_one_run(self, run_id: str, verdicts: list[Verdict]) -> None:
        """Commit, however long Redis is away: scored work is not thrown away for a restart of the server.

        Only when this worker is told to stop meanwhile, it gives up; the questions stay unsettled and are asked again.
        """
        wait_s = 0.1
        while True:
            try:
                self.done += self._ledger.commit(run_id, verdicts).new
                return
            except UnknownRun:
                log.warning("run %s was purged: %d verdicts are dropped", run_id, len(verdicts))
                return
            except LedgerError as trouble:
                if not trouble.retryable or self._stopping():
                    raise
                log.warning("%d verdicts wait for the ledger: %s", len(verdicts), trouble)
                time.sleep(wait_s)
                wait_s = min(wait_s * 2, LONGEST_PAUSE_S)

    def _introduce(self, run_id: str) -> None:
        """Keep in the ledger which engine answers the run here: later, a worker of this name may have another.

        Noted before the first verdict, so that no verdict is older than the note of its engine; and with every batch,
        because the note is gone once the run was purged and enqueued again.
        """
        if told := self._engine_of(run_id):
            with contextlib.suppress(UnknownRun):  # purged meanwhile
                self._ledger.note_engine(run_id, EngineUsed(worker=self._worker, since=time.time(), engine=told))

    def _engine_and_version(self) -> dict[str, Any]:
        engine = self._describe_engine()
        return {"mcqueue": metadata.version("mcqueue"), **engine} if engine else {}  # whose code asks and reads

    def _settle_messages(self, batch: Batch, endings: Endings) -> None:
        """Acknowledge each message whose questions were all settled, sent on or put aside; the others go back."""
        for held in batch.held:
            counts = Counter(endings.get((held.run_id, each)) for each in held.question_ids)
            before = counts.pop(None, 0)
            parts = [f"{n} {ending}" for ending, n in sorted((str(ending), n) for ending, n in counts.items())]
            held.summary = ", ".join(parts + ([f"{before} settled before"] if before else []))
            held.settlement = Settlement.REQUEUE if AGAIN in counts else Settlement.ACKNOWLEDGE

    def _log(self, batch: Batch) -> None:
        seconds = time.time() - batch.started_at
        fill = batch.questions / self._settings.full_batch
        log.info(
            "batch %d: %d question%s in %.2f s, %.1f questions/s, fill %.0f %%, flushed by %s%s",
            batch.number,
            batch.questions,
            "" if batch.questions == 1 else "s",
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
