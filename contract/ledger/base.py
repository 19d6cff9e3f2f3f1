"""The ledger as both sides may ask of it, wherever it is kept."""

from __future__ import annotations

import abc
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from contract.engine_info import EngineUsed
from contract.errors import InputError, UnknownRun
from contract.ledger.run import Counts, Run, RunState
from contract.question import Body, Question
from contract.spec import Stage, is_called
from contract.verdict import Passage, Verdict

__all__ = ["LAST", "UNCOUNTED", "Begun", "Committed", "Ledger"]

#: The name that means the newest run.
LAST = "last"
#: As `suspect_from`: no question is counted as begun; the caller only looks which are unsettled.
UNCOUNTED = -1
#: Runs that a message lists before the rest is only counted.
MOST_LISTED = 5


class Begun(NamedTuple):
    """An unsettled question handed to a worker, with the number of times it was begun.

    `counted` says whether this handing-out is one of them; a suspect is handed out without, to be begun alone.
    """

    question: Question
    attempts: int
    counted: bool


class Committed(NamedTuple):
    """What a commit changed: verdicts that were the first for their question, and questions still unsettled."""

    new: int
    left: int


class Ledger(abc.ABC):
    """What both sides may ask of the ledger. Unknown runs raise UnknownRun unless the method says otherwise."""

    @abc.abstractmethod
    def open_run(self, run: Run) -> bool:
        """Write `run`, and say whether it is new. Raises RunConflict if the id belongs to another spec."""

    def add_questions(self, run_id: str, questions: Iterable[Question]) -> int:
        """Write the bodies of `questions`, each once, and return how many were new."""
        return self.add_bodies(run_id, (question.body() for question in questions))

    @abc.abstractmethod
    def add_bodies(self, run_id: str, bodies: Iterable[Body]) -> int:
        """Write `bodies` of questions, each once, and return how many were new."""

    @abc.abstractmethod
    def run(self, run_id: str) -> Run:
        """The run of that id. Raises UnreadableRun for one that this version does not understand."""

    @abc.abstractmethod
    def runs(self) -> list[Run]:
        """All runs, newest first, but for those that this version does not understand."""

    def named(self, name: str) -> Run:
        """The run of that id; else the only one called so, else the only one whose id begins so; `last` is the newest.

        Raises InputError where several are meant, and where there is no run at all.
        """
        runs = self.runs()
        if name == LAST and runs:
            return runs[0]
        if name == LAST:
            raise InputError("There is no run yet.", hint="Make one: python -m producer enqueue FILE")
        meant = (
            [run for run in runs if run.run_id == name]
            or [run for run in runs if is_called(run.run_id, name)]
            or [run for run in runs if run.run_id.startswith(name)]
        )
        if len(meant) > 1:
            listed = ", ".join(run.run_id for run in meant[:MOST_LISTED])
            more = f" and {len(meant) - MOST_LISTED} more" if len(meant) > MOST_LISTED else ""
            raise InputError(
                f"{name!r} is the beginning of {len(meant)} runs: {listed}{more}.", hint="Type more of it."
            )
        return meant[0] if meant else self.run(name)

    @abc.abstractmethod
    def open_runs(self) -> list[str]:
        """Ids of the runs that have unsettled questions and are neither paused nor cancelled."""

    @abc.abstractmethod
    def counts(self, run_id: str) -> Counts:
        """How far the run is."""

    def standings(self, runs: Iterable[Run]) -> Iterator[tuple[Run, Counts]]:
        """Each of `runs` and how far it is. One that was purged meanwhile, as the HTTP door does, is left out."""
        for run in runs:
            try:
                counts = self.counts(run.run_id)
            except UnknownRun:
                continue
            yield run, counts

    @abc.abstractmethod
    def unsettled(self, run_id: str) -> Iterator[str]:
        """Ids without a verdict, in input order."""

    @abc.abstractmethod
    def begin(
        self, run_id: str, question_ids: Sequence[str], suspect_from: int = 0, stage: Stage = Stage.SCORE
    ) -> list[Begun]:
        """Those of `question_ids` that are unsettled, each counted as begun once more in this stage.

        A question begun `suspect_from` times already (0: no limit) comes back uncounted, so that the caller can begin
        it alone: it may be what its earlier company died of. With `UNCOUNTED` all do, for a caller who only asks.

        Raises RunHalted for a paused or cancelled run, having put aside the unsettled ones: drop their message.
        """

    @abc.abstractmethod
    def note_trouble(self, run_id: str, question_ids: Sequence[str], reason: str) -> list[int]:
        """Keep why an attempt at each of `question_ids` failed, until it is settled; return how many reasons each has.

        0 for a question that is settled already.
        """

    @abc.abstractmethod
    def troubles(self, run_id: str, question_id: str) -> list[str]:
        """Why earlier attempts at an unsettled question failed, as far as anybody lived to say."""

    @abc.abstractmethod
    def attach(self, run_id: str, passages: Mapping[str, Sequence[Passage]]) -> None:
        """Keep what was retrieved, by question id, until the question is settled."""

    @abc.abstractmethod
    def passages(self, run_id: str, question_ids: Sequence[str]) -> dict[str, tuple[Passage, ...]]:
        """What was attached, by question id; a question that nothing was retrieved for yet is not in it."""

    @abc.abstractmethod
    def commit(self, run_id: str, verdicts: Sequence[Verdict]) -> Committed:
        """Settle questions in one atomic step; a verdict that came second changes nothing."""

    @abc.abstractmethod
    def note_engine(self, run_id: str, used: EngineUsed) -> None:
        """Keep that this engine answers questions of the run; the first of equal notes stands."""

    @abc.abstractmethod
    def engines(self, run_id: str) -> list[EngineUsed]:
        """The engines that answered questions of the run, the first one first."""

    @abc.abstractmethod
    def results(
        self, run_id: str, start: int = 0, stop: int | None = None
    ) -> Iterator[tuple[Question, Verdict | None]]:
        """The questions of the run in input order, from position `start` to before `stop` (None: to the end).

        Each with its verdict if it has one.
        """

    @abc.abstractmethod
    def result(self, run_id: str, question_id: str) -> tuple[Question, Verdict | None]:
        """One question with its verdict if it has one. Raises UnknownRun if the run lacks it."""

    @abc.abstractmethod
    def halt(self, run_id: str, state: RunState) -> RunState:
        """Pause or cancel the run and return what it was; a cancelled run stays cancelled."""

    @abc.abstractmethod
    def resume(self, run_id: str) -> RunState:
        """Let the run go on and return what it was. `take_aside` then says what must be sent for that."""

    @abc.abstractmethod
    def take_aside(self, run_id: str) -> Iterator[str]:
        """Unsettled ids that were put aside, in input order, each given out once: send them."""

    @abc.abstractmethod
    def reopen_failed(self, run_id: str) -> int:
        """Take failed verdicts back and return how many; their questions are as if never begun. Raises RunHalted."""

    @abc.abstractmethod
    def purge(self, run_id: str) -> None:
        """Forget the run; messages of it that are still under way will be dropped."""
