"""The ledger's interface, independent of where it is stored."""

from __future__ import annotations

import abc
import logging
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from contract.engine_info import EngineUsed
from contract.errors import InputError, UnknownRun, UnreadableRun, nearest
from contract.ledger.run import Counts, Run, RunState
from contract.names import LAST, is_called, is_request
from contract.question import Body, Question
from contract.spec import Stage
from contract.verdict import Passage, Verdict

__all__ = ["REQUEST_ENDED", "Begun", "Ledger", "OpenRuns", "new_call", "unknown"]

log = logging.getLogger(__name__)

#: Said of a run that is gone and belonged to an HTTP request.
REQUEST_ENDED = "It was a request to the HTTP server, which deletes each once it is answered or nobody waits for it."
#: Maximum number of runs that a message lists by name.
MOST_LISTED = 5


def unknown(run_id: str, known: list[str], where: str = "the ledger") -> UnknownRun:
    """Return the error for a run that is not in the ledger, among `known` ids."""
    helps = REQUEST_ENDED if is_request(run_id) else nearest(run_id, known)
    return UnknownRun(f"No run {run_id!r} in {where}.", hint=helps or "`python -m producer runs` lists them.")


def new_call() -> str:
    """Return a name for one call, by which the ledger tells a repeated call from another one."""
    return uuid.uuid4().hex[:8]


class Begun(NamedTuple):
    """An unsettled question handed to a worker, with its number of attempts.

    `counted` says whether this one is included; a suspect is handed out uncounted, to be begun alone later.
    """

    question: Question
    attempts: int
    counted: bool


class OpenRuns(NamedTuple):
    """The open runs by id, and why this version cannot read the others."""

    runs: dict[str, Run]
    unreadable: dict[str, UnreadableRun]


class Ledger(abc.ABC):
    """Interface of the ledger. Methods raise UnknownRun for an unknown run unless they say otherwise."""

    @abc.abstractmethod
    def open_run(self, run: Run) -> Run:
        """Write `run` unless its id is known, and return what is stored. Raises RunConflict if it has another spec."""

    def add_questions(self, run_id: str, questions: Iterable[Question]) -> None:
        """Write the bodies of `questions`, skipping known ones."""
        self.add_bodies(run_id, (question.body() for question in questions))

    @abc.abstractmethod
    def add_bodies(self, run_id: str, bodies: Iterable[Body]) -> None:
        """Write question `bodies`, skipping known ones."""

    @abc.abstractmethod
    def run(self, run_id: str) -> Run:
        """Return the run of that id. Raises UnreadableRun if this version cannot read it."""

    @abc.abstractmethod
    def run_ids(self) -> list[str]:
        """Return the ids of all runs, newest first."""

    @abc.abstractmethod
    def runs(self, among: Sequence[str] | None = None) -> list[Run]:
        """Return all runs that this version can read, newest first; or those of these ids, in the ids' order."""

    def lean_runs(self) -> Iterator[Run]:
        """Yield all runs that this version can read, newest first, without their few-shot examples.

        They are read one by one: each may have thousands of examples, which must not be in memory all at once.
        """
        for run_id in self.run_ids():
            try:
                yield self.run(run_id).without_examples()
            except UnknownRun:  # purged meanwhile
                continue
            except UnreadableRun as trouble:
                log.warning("%s It is skipped.", trouble)

    def named(self, name: str) -> Run:
        """Return the run with id `name`, else the only run of that name, else the only one whose id starts so.

        `last` is the newest run, unless it is that of an HTTP request: somebody else waits for it, and it is purged
        within seconds. Case does not matter. Raises InputError if several match, for an empty name, and for `last` if
        there is no run at all.
        """
        if not name:  # of an unset variable: as a prefix, it would be any run
            raise InputError("RUN is empty.", hint="`python -m producer runs` lists the runs.")
        ids = self.run_ids()  # not `runs`: each may hold thousands of examples
        if name.lower() == LAST:
            return self.run(_last(ids))
        meant = (
            [each for each in ids if each == name]
            or [each for each in ids if is_called(each, name)]
            or [each for each in ids if each.startswith(name.lower())]  # ids have no capitals
        )
        if len(meant) > 1:
            listed = ", ".join(meant[:MOST_LISTED])
            more = f" and {len(meant) - MOST_LISTED} more" if len(meant) > MOST_LISTED else ""
            raise InputError(
                f"{name!r} matches {len(meant)} runs: {listed}{more}.", hint="Use a longer prefix, or a whole id."
            )
        return self.run(meant[0] if meant else name)

    @abc.abstractmethod
    def open_runs(self) -> list[str]:
        """Return the ids of runs that have unsettled questions and are neither paused nor cancelled."""

    def read_open_runs(self, known: Mapping[str, Run] | None = None) -> OpenRuns:
        """Return the open runs, without their few-shot examples, of which there may be thousands.

        Runs in `known`, which come from an earlier call, are not read again. Runs that were purged meanwhile are left
        out; the HTTP server purges one after each request.
        """
        known, found = known or {}, OpenRuns({}, {})
        for run_id in self.open_runs():
            try:
                found.runs[run_id] = known.get(run_id) or self.run(run_id).without_examples()
            except UnknownRun:
                continue
            except UnreadableRun as trouble:
                found.unreadable[run_id] = trouble
        return found

    @abc.abstractmethod
    def counts(self, run_id: str) -> Counts:
        """Return the run's progress. Raises UnreadableRun if this version cannot read it."""

    def standings(self, runs: Iterable[Run]) -> Iterator[tuple[Run, Counts]]:
        """Yield each of `runs` with its progress.

        Runs purged meanwhile (as the HTTP server does) are left out, and those whose progress this version cannot read.
        """
        for run in runs:
            try:
                counts = self.counts(run.run_id)
            except UnknownRun:
                continue
            except UnreadableRun as trouble:
                log.warning("%s It is skipped.", trouble)
                continue
            yield run, counts

    @abc.abstractmethod
    def unsettled(self, run_id: str) -> Iterator[str]:
        """Yield the ids without a verdict, in input order."""

    @abc.abstractmethod
    def questions(self, run_id: str, question_ids: Sequence[str]) -> dict[str, Question]:
        """Return the questions by id, without those that this version cannot read; none of an unknown run."""

    @abc.abstractmethod
    def begin(
        self,
        run_id: str,
        question_ids: Sequence[str],
        count_below: int | None = None,
        stage: Stage = Stage.SCORE,
        call: str = "",
    ) -> list[Begun]:
        """Return the unsettled ones of `question_ids`, and count an attempt of this stage for each.

        A caller that got no answer, and repeats its `call` (`new_call`), counts one attempt, as the ledger may have
        executed it. Without a name, it is another attempt.

        With `count_below`, an attempt is counted only for those that have had fewer than that. The others are returned
        uncounted, and the caller begins each of them again, alone: it may have killed its worker. With 0 none is
        counted, for a caller that only wants to know which questions are unsettled.

        Raises RunHalted for a paused or cancelled run, after it has put the unsettled ones aside: the caller drops
        their message.
        Raises UnreadableRun, with no attempt counted, if another version of mcqueue wrote one of them.
        """

    @abc.abstractmethod
    def uncount(self, run_id: str, question_ids: Sequence[str], stage: Stage = Stage.SCORE) -> None:
        """Take back one attempt at each unsettled one of `question_ids`, as it was broken off."""

    @abc.abstractmethod
    def note_trouble(self, run_id: str, question_ids: Sequence[str], reason: str, call: str = "") -> list[int]:
        """Record why an attempt at each of `question_ids` failed; return how many reasons each has now.

        A `call` that is repeated, as in `begin`, records one reason.
        Reasons are kept until the question is settled, or its passages are attached; a settled one has 0.
        """

    @abc.abstractmethod
    def troubles(self, run_id: str, question_id: str) -> list[str]:
        """Return why attempts at an unsettled question failed, if the workers lived to say; none of an unknown run."""

    @abc.abstractmethod
    def attach(self, run_id: str, passages: Mapping[str, Sequence[Passage]]) -> None:
        """Store the retrieved passages, by question id, until the question is settled, and forget its lookups."""

    @abc.abstractmethod
    def passages(self, run_id: str, question_ids: Sequence[str]) -> dict[str, tuple[Passage, ...]]:
        """Return the passages attached so far, by question id; none of an unknown run, so that its batch goes on.

        Raises UnreadableRun if another version of mcqueue attached them.
        """

    @abc.abstractmethod
    def commit(self, run_id: str, verdicts: Sequence[Verdict], engine: EngineUsed | None = None) -> list[Verdict]:
        """Settle questions in one atomic step, and return the verdicts that stand: the first of each question.

        In the same step, note the `engine` that answered them, so that no verdict is without it.
        Later ones are ignored, and so are those of questions that the run does not have. The same verdict committed
        again still stands, and counts once.
        """

    @abc.abstractmethod
    def note_engine(self, run_id: str, used: EngineUsed) -> None:
        """Record that this engine answers questions of the run, unless the worker has recorded the same one before."""

    @abc.abstractmethod
    def engines(self, run_id: str) -> list[EngineUsed]:
        """Return the engines that answered questions of the run, oldest first."""

    @abc.abstractmethod
    def results(
        self, run_id: str, start: int = 0, stop: int | None = None
    ) -> Iterator[tuple[Question, Verdict | None]]:
        """Yield the questions in input order with their verdicts (None: unsettled).

        From position `start` up to, but not including, `stop` (None: to the end).
        """

    @abc.abstractmethod
    def results_of(self, run_id: str, question_ids: Sequence[str]) -> dict[str, tuple[Question, Verdict | None]]:
        """Return these questions with their verdicts, by id, without those that the run does not have."""

    def result(self, run_id: str, question_id: str) -> tuple[Question, Verdict | None]:
        """Return one question and its verdict, if any. Raises UnknownRun if the run has no such question."""
        if found := self.results_of(run_id, [question_id]):
            return found[question_id]
        raise UnknownRun(f"Run {run_id} has no question {question_id!r}.", hint="Its results.csv lists the ids.")

    def retrieved(self, run_id: str, question_ids: Sequence[str]) -> dict[str, tuple[Passage, ...]]:
        """Return the passages that were retrieved for these questions, by id: of settled ones those in the verdict.

        The tuple is empty if none were found. A question that was not searched for yet, or failed before, is left out.
        """
        attached = self.passages(run_id, question_ids)  # first: one that is settled meanwhile has them in its verdict
        settled = {
            each: verdict.passages
            for each, (_, verdict) in self.results_of(run_id, question_ids).items()
            if verdict and (verdict.passages or not verdict.error)
        }
        return attached | settled

    @abc.abstractmethod
    def halt(self, run_id: str, state: RunState) -> RunState:
        """Pause or cancel the run and return its state from now on; a cancelled run stays cancelled."""

    @abc.abstractmethod
    def resume(self, run_id: str) -> None:
        """Resume the run. `take_aside` then returns the questions to send again."""

    @abc.abstractmethod
    def take_aside(self, run_id: str) -> Iterator[str]:
        """Yield the unsettled ids that were put aside, in input order, each only once: the caller must send them."""

    @abc.abstractmethod
    def reopen_failed(self, run_id: str) -> list[str]:
        """Remove failed verdicts and the attempts of their questions; return their ids. Raises RunHalted.

        If no verdict is left, the engines are forgotten, too.

        The caller must send them, also those in a message that a worker holds: in that one, they are done with.
        """

    @abc.abstractmethod
    def purge(self, *run_ids: str) -> None:
        """Delete the runs in one atomic step; workers will drop their messages that are still in flight."""


def _last(ids: Sequence[str]) -> str:
    newest = next((each for each in ids if not is_request(each)), None)
    if newest is None:
        but = ", only requests to the HTTP server" if ids else ""
        raise InputError(f"There are no runs yet{but}.", hint="Create one with: python -m producer enqueue FILE")
    return newest
