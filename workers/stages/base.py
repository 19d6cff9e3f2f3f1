"""Batch processing shared by both stages: begin, attempt and settle the questions, then settle the messages."""

from __future__ import annotations

import abc
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache, partial
from typing import Any

from contract.errors import EngineDead, EngineError, LedgerError, RunHalted, UnknownRun, UnreadableRun, WaitEnded
from contract.ledger import new_call
from contract.queue import MESSAGE_VERSION
from contract.spec import RunSpec, Stage
from contract.verdict import Failure
from contract.wording import number
from workers.messages.batch import Batch, HeldMessage, Settlement
from workers.monitoring.events import BatchEvents
from workers.retries import reason_of
from workers.scoring import Item, versions
from workers.stages import pauses
from workers.stages.isolation import Isolation
from workers.stages.put_offs import PutOffs
from workers.stages.recorder import Recorder
from workers.stages.work import AGAIN, KNOWN_RUNS, Endings, NotNow, Settled, StageContext, Work, asked_by_run, by_run

__all__ = ["BatchWork"]

log = logging.getLogger(__name__)

#: A question that was begun this often without a verdict may have killed its worker. It is a suspect then, and is begun
#: alone. With `max_attempts: 2`, it is one after the first attempt already, so that the last one is always made alone.
SUSPECT_FROM = 2


class BatchWork(abc.ABC):
    """Base of the stages. Independent of Celery, so that it also runs, and is tested, on a MemoryLedger."""

    stage: Stage

    def __init__(self, context: StageContext) -> None:
        self._settings = context.settings
        self._ledger = context.ledger
        self._send = context.send
        self._suspect_from = min(SUSPECT_FROM, context.settings.max_attempts - 1)
        self._recorder = Recorder(context, self.stage, self._engine_of)
        self._put_offs = PutOffs()
        #: Cached for the latest runs only: the HTTP server creates a run per request.
        self._spec: Callable[[str], RunSpec] = lru_cache(KNOWN_RUNS)(lambda run_id: self._ledger.run(run_id).spec)
        self._isolation = Isolation()
        #: By batch: questions begun that have no verdict yet.
        self._under_way: dict[int, Sequence[Work]] = {}
        self._pauses = pauses.Pauses(context.settings.full_batch, context.stopping)

    @property
    def done(self) -> int:
        """Number of questions settled or sent on by this stage so far."""
        return self._recorder.done

    @property
    def asks_alone(self) -> bool:
        """Whether a suspect is running alone, or waiting for that."""
        return self._isolation.wanted_alone

    @property
    def puts_off(self) -> dict[str, str]:
        """Run → why this worker currently requeues its questions."""
        return self._put_offs.current

    @property
    def refused(self) -> str:
        """Why Redis refuses what is to be written into the ledger; empty: it does not."""
        return self._recorder.refused

    def _hindrance(self, spec: RunSpec) -> str:  # noqa: ARG002 - used by overrides
        """Return why this worker cannot do this stage for such a run now, though another one may; empty if it can.

        The questions go back to the queue, and cost no attempt.
        """
        return ""

    @abc.abstractmethod
    def _unfit(self, spec: RunSpec) -> Failure | None:
        """Return why this worker must never do this stage for such a run; None if it may."""

    def _describe_engine(self) -> dict[str, Any]:
        """Return the description of the answering engine; empty if the stage has none."""
        return {}

    def _engine_of(self, run_id: str) -> dict[str, Any]:
        """Return the description of the engine that answers this run, with the version of what reads its texts."""
        engine = self._describe_engine()
        return {**versions(self._spec(run_id).mode), **engine} if engine else {}

    @abc.abstractmethod
    def _perform(self, batch: Batch, works: Sequence[Work]) -> Iterator[Endings]:
        """Do this stage for `works`, and yield their endings in parts, each valid even if a later part fails."""

    def run(self, batch: Batch, events: BatchEvents | None = None) -> None:
        """Process `batch`, and settle each of its messages."""
        if events:
            events.started(batch)
        endings: Endings = {}
        pause_s = 0.0
        try:
            with self._put_offs.during_batch():
                endings = self._process(batch)
            _settle_messages(batch, endings)
            pause_s, batch.requeue_after_s = self._pauses.choose(endings, batch.retry_after_s)
        except EngineDead as trouble:
            batch.fatal = str(trouble)
        except LedgerError as trouble:
            log.warning("batch %d is requeued: %s", batch.number, trouble)
            pause_s = pauses.RETRY_PAUSE_S
        finally:
            if events:
                events.ended(batch)
        if batch.begun and set(endings.values()) != {AGAIN}:
            self._log(batch)
        self._pauses.take(pause_s)

    def note_under_way(self, reason: str) -> None:
        """Record in the ledger why the questions begun here will get no verdict. From any thread."""
        for works in list(self._under_way.values()):
            self._recorder.note_reason(works, reason)

    def uncount_under_way(self) -> None:
        """Take back the attempts at the questions begun here: this worker stops without waiting for them."""
        for works in list(self._under_way.values()):
            self._recorder.uncount(works)

    def _process(self, batch: Batch) -> Endings:
        """Process the batch's unsettled questions and return their endings."""
        with self._isolation.shared():
            endings, suspects = self._process_all_but_suspects(batch)
        for suspect in suspects:
            with self._isolation.exclusive():
                endings |= self._attempt_alone(batch, suspect)
        return endings

    def _process_all_but_suspects(self, batch: Batch) -> tuple[Endings, list[Work]]:
        """Process all questions except suspects; return their endings, and the suspects, which are not begun yet."""
        endings: Endings = {}
        ready: list[Work] = []
        suspects: list[Work] = []
        for run_id, asked in asked_by_run(batch).items():
            begun, not_begun = self._begin_what_can_be(batch, run_id, asked)
            endings |= not_begun
            if not begun:
                continue
            counted = [each for each in begun if each.attempts <= self._suspect_from]
            uncounted = [each for each in begun if each.attempts > self._suspect_from]
            try:
                refused = self._refuse(batch, run_id, begun)
            except LedgerError as trouble:
                refused = self._put_off_damaged(run_id, counted, trouble)
                refused |= self._put_offs.add(run_id, [each.question_id for each in uncounted], str(trouble))
            endings |= refused
            ready += _left(counted, refused)
            suspects += _left(uncounted, refused)
        endings |= self._attempt(batch, ready)
        return endings, suspects

    def _refuse(self, batch: Batch, run_id: str, begun: Sequence[Work]) -> Endings:
        """Fail what this worker must never ask, and what has had all attempts."""
        unfit = self._unfit(begun[0].item.spec)
        refused: list[Settled] = []
        for work in begun:
            if failure := unfit or self._exhausted(work):
                attempts = min(work.attempts, self._settings.max_attempts)  # one beyond that was never made
                refused.append(self._recorder.failed(batch, work.held, work.question_id, attempts, failure))
        if not refused:
            return {}
        endings = self._recorder.commit(run_id, refused, asked=False)
        batch.begun += len(refused)
        return endings

    def _commit(self, settled: Sequence[Settled]) -> Endings:
        """Write the verdicts, and return their outcomes; runs whose data are damaged are put off."""
        endings: Endings = {}
        for run_id, of_run in by_run(settled).items():
            try:
                endings |= self._recorder.commit(run_id, of_run)
            except LedgerError as trouble:
                endings |= self._put_off_damaged(run_id, of_run, trouble)
        return endings

    def _retry_or_fail(self, batch: Batch, begun: Work | Settled, reason: str) -> Endings:
        """Record that the attempt at a question failed, as `Recorder.retry_or_fail`; put off one of a damaged run."""
        try:
            return self._recorder.retry_or_fail(batch, begun.held, begun.question_id, begun.attempts, reason)
        except LedgerError as trouble:
            return self._put_off_damaged(begun.run_id, [begun], trouble)

    def _put_off_damaged(self, run_id: str, begun: Sequence[Work | Settled], trouble: LedgerError) -> Endings:
        """Put off questions of a run whose data in the ledger are damaged, as others of the batch may not be.

        Raises `trouble` if it is not that: this worker stops.
        """
        if trouble.retryable:
            raise trouble
        return self._put_off(run_id, begun, str(trouble))

    def _put_off(self, run_id: str, begun: Sequence[Work | Settled], why: str) -> Endings:
        """Put off questions of a run that were begun already, and take their attempts back."""
        self._recorder.uncount(begun)
        return self._put_offs.add(run_id, [each.question_id for each in begun], why)

    def _begin_what_can_be(
        self, batch: Batch, run_id: str, asked: dict[str, HeldMessage]
    ) -> tuple[list[Work], Endings]:
        """Begin what can be begun; return it, and the endings of the rest: halted, put off, or unreadable.

        A ledger that is away is waited for: other runs of the batch may have begun, and their attempts are counted.
        """
        try:
            return self._begin_what_can_be_read(batch, run_id, asked)
        except RunHalted as halt:
            self._put_offs.end(run_id)
            return [], _not_begun(run_id, asked, halt)
        except NotNow as why:
            return [], self._put_offs.add(run_id, asked, str(why))
        except LedgerError as trouble:
            if trouble.retryable:  # the worker stops
                raise
            return [], self._put_offs.add(run_id, asked, str(trouble))  # damaged; others of the batch may not be

    def _begin_what_can_be_read(
        self, batch: Batch, run_id: str, asked: dict[str, HeldMessage]
    ) -> tuple[list[Work], Endings]:
        """Begin what can be read; return it, and the endings of the rest: an unreadable question fails alone."""
        try:
            begin = partial(self._begin, run_id, asked, new_call())
            return self._recorder.despite_outages(number(len(asked), "question"), begin), {}
        except (LedgerError, NotNow):
            raise
        except Exception as trouble:
            if len(asked) == 1:
                ((question_id, held),) = asked.items()
                log.exception("question %s", question_id)
                return [], self._recorder.retry_or_fail(batch, held, question_id, 0, reason_of(trouble))
            log.warning("%d questions of %s cannot be read together: %s", len(asked), run_id, reason_of(trouble))
        parts = [self._begin_what_can_be(batch, run_id, {each: held}) for each, held in asked.items()]
        begun = [work for works, _ in parts for work in works]
        return begun, {each: ending for _, endings in parts for each, ending in endings.items()}

    def _begin(self, run_id: str, asked: dict[str, HeldMessage], call: str) -> list[Work]:
        """Begin the unsettled ones of `asked`. A suspect's attempt is counted later, when it is begun alone.

        A `call` that is repeated counts one attempt, although an answer may have been lost.

        Raises RunHalted for a paused or cancelled run, whose questions the ledger has put aside: their messages are no
        longer needed. Raises NotNow if this worker currently cannot process the run.
        """
        try:
            spec, hindrance = self._spec_or_hindrance(run_id, asked.values())
            count_below = 0 if hindrance else self._suspect_from
            begun = self._ledger.begin(run_id, list(asked), count_below, self.stage, call)
        except UnknownRun:
            self._put_offs.end(run_id)
            log.warning("run %s is unknown or purged: %d of its questions are dropped", run_id, len(asked))
            return []
        except UnreadableRun as trouble:  # its questions, though not its spec
            raise NotNow(str(trouble)) from None
        if hindrance and begun:
            raise NotNow(hindrance)
        self._put_offs.end(run_id)
        if spec is None:
            return []
        return [
            Work(Item(each.question, spec), asked[each.question.id], each.attempts + (0 if each.counted else 1))
            for each in begun
        ]

    def _spec_or_hindrance(self, run_id: str, held: Iterable[HeldMessage]) -> tuple[RunSpec | None, str]:
        """Return the run's spec, and why this worker cannot process it now; empty if it can.

        The spec is None if only a newer worker can read it, or the messages.
        """
        version = max(each.version for each in held)
        if version > MESSAGE_VERSION:
            return None, f"message version {version}, this worker reads up to {MESSAGE_VERSION}: update the worker"
        try:
            spec = self._spec(run_id)
        except UnreadableRun as trouble:
            return None, str(trouble)
        return spec, self._hindrance(spec)

    def _exhausted(self, work: Work) -> Failure | None:
        """Return the failure of a question that has had all its attempts; None if it has any left."""
        if work.attempts <= self._settings.max_attempts:
            return None
        return self._recorder.exhausted(work.run_id, work.question_id, self._settings.max_attempts)

    def _attempt_alone(self, batch: Batch, work: Work) -> Endings:
        """Begin a suspect while nothing else is running: if this worker dies now, the ledger knows the culprit."""
        run_id, question_id = work.run_id, work.question_id
        times = number(work.attempts - 1, "time")
        log.warning("question %s was begun %s without a verdict: alone now", question_id, times)
        begin = partial(self._ledger.begin, run_id, [question_id], None, self.stage, new_call())
        try:
            if not self._recorder.despite_outages("1 question", begin):
                return {}
        except RunHalted as halt:
            return _not_begun(run_id, [question_id], halt)
        except UnknownRun:
            return {}
        return self._attempt(batch, [work])

    def _attempt(self, batch: Batch, works: Sequence[Work]) -> Endings:
        """Do the stage for `works`. If the worker stops while its engine waits for a server, no attempt is counted."""
        endings: Endings = {}
        batch.begun += len(works)
        self._under_way[batch.number] = works
        try:
            self._attempt_or_halve(batch, works, endings)
        except WaitEnded:
            self._recorder.uncount(_left(works, endings))
            raise
        except EngineDead as trouble:
            self._recorder.note_reason(_left(works, endings), reason_of(trouble))
            raise
        finally:
            del self._under_way[batch.number]
        return endings

    def _attempt_or_halve(self, batch: Batch, works: Sequence[Work], endings: Endings) -> None:
        """Do the stage for `works`; after an unexpected error, for their halves, down to the question at fault.

        Adds to `endings` as questions end, also before an error is raised.
        """
        try:
            for ended in self._perform(batch, works):
                endings |= ended
            return
        except (EngineDead, LedgerError):
            raise
        except Exception as trouble:
            left = _left(works, endings)
            if len(left) == 1:
                (work,) = left
                if not isinstance(trouble, EngineError):  # which says what is wrong: a line is logged with the attempt
                    log.exception("question %s", work.question_id)
                endings |= self._retry_or_fail(batch, work, reason_of(trouble))
                return
            log.warning("%d questions failed together, halving them: %s", len(left), reason_of(trouble))
        middle = len(left) // 2
        self._attempt_or_halve(batch, left[:middle], endings)
        self._attempt_or_halve(batch, left[middle:], endings)

    def _log(self, batch: Batch) -> None:
        seconds = batch.took_s()
        fill = batch.begun / self._settings.full_batch
        log.info(
            "batch %d: %s in %.2f s, fill %.0f %%, flushed by %s%s",
            batch.number,
            number(batch.begun, "question"),
            seconds,
            100 * fill,
            batch.flush,
            f": {batch.fatal}" if batch.fatal else "",
            extra={
                "action": "batch_done",
                "batch": batch.number,
                "questions": batch.begun,
                "seconds": seconds,
                "flush": batch.flush,
                "waited_s": batch.waited_s,
            },
        )


def _settle_messages(batch: Batch, endings: Endings) -> None:
    """Acknowledge each message whose questions were all settled, sent on or put aside; requeue the others."""
    for held in batch.held:
        counts = Counter(endings.get((held.run_id, each)) for each in held.question_ids)
        before = counts.pop(None, 0)
        parts = [f"{n} {ending}" for ending, n in sorted((str(ending), n) for ending, n in counts.items())]
        held.summary = ", ".join(parts + ([f"{before} settled before"] if before else []))
        held.settlement = Settlement.REQUEUE if AGAIN in counts else Settlement.ACKNOWLEDGE


def _left(works: Iterable[Work], endings: Endings) -> list[Work]:
    return [work for work in works if (work.run_id, work.question_id) not in endings]


def _not_begun(run_id: str, question_ids: Iterable[str], halt: RunHalted) -> Endings:
    log.info("run %s is %s: its questions are not begun", run_id, halt.state)
    return {(run_id, each): f"not begun: {halt.state}" for each in question_ids}
