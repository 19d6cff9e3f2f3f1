"""A run, whether it goes on, and how far it is."""

from __future__ import annotations

from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field

from contract.errors import RunHalted
from contract.priority import Priority
from contract.spec import RunSpec
from contract.verdict import Outcome

__all__ = ["Counts", "Run", "RunState", "Taken", "halted"]


class Taken(BaseModel):
    """What of its source a run asks, and what it left out."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    #: The set and the split of the source that were asked for; empty: it is not said, or there is one.
    subset: str = ""
    split: str = ""
    #: Subjects asked for; none: all.
    subjects: tuple[str, ...] = ()
    #: The first so many, whatever comes after them.
    limit: int | None = None
    #: So many at random, by this seed, each subject with its share or not.
    sample: int | None = None
    seed: int | None = None
    stratified: bool = False
    #: Good rows that were looked at, asked or not; where there is a limit, the rest was not read.
    rows: int = 0
    #: Bad rows that were left out.
    skipped: int = 0
    #: Of the questions asked, those with a context, and those that ask, word for word, what one before them asks, in
    #: whatever order their choices stand.
    with_context: int = 0
    repeated: int = 0


class Run(BaseModel):
    """One RunSpec applied to one set of questions."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    run_id: str
    spec: RunSpec
    #: Where the questions came from, as the person named it.
    source: str
    questions: int = Field(ge=1)
    #: What guessing scores, over the questions with a key; None where nobody can guess: there is no key, or no choice
    #: is shown.
    chance: float | None
    #: Questions without a key; they are in no accuracy.
    without_key: int = 0
    created_at: float
    #: At which its questions were first sent, and at which lost ones are sent again.
    priority: Priority = Priority.NORMAL
    #: None where nobody chose from a source, and in runs from before this was kept.
    taken: Taken | None = None

    @property
    def repeats(self) -> bool:
        """Whether questions may stand in it twice, word for word, under ids of their own."""
        return self.taken is not None and self.taken.repeated > 0


class RunState(StrEnum):
    """Whether a run's questions are begun. In any state, what was begun before is settled."""

    RUNNING = "running"
    #: Nothing is begun until somebody resumes it.
    PAUSED = "paused"
    #: The same, and nobody waits for it.
    CANCELLED = "cancelled"


class Counts(BaseModel):
    """How far a run is. `settled` is the sum of the outcomes."""

    model_config = ConfigDict(frozen=True)

    total: int
    todo: int
    outcomes: dict[Outcome, int] = Field(default_factory=dict)
    state: RunState = RunState.RUNNING

    def of(self, outcome: Outcome) -> int:
        """Questions that ended as `outcome`."""
        return self.outcomes.get(outcome, 0)

    @property
    def settled(self) -> int:
        """Questions with a verdict."""
        return sum(self.outcomes.values())

    @property
    def unwritten(self) -> int:
        """Questions that the producer has not written: it is at it, or was cut short."""
        return max(0, self.total - self.settled - self.todo)

    @property
    def written(self) -> bool:
        """Whether the producer has written every question of the run."""
        return not self.unwritten

    @property
    def finished(self) -> bool:
        """Whether every question of the run has its verdict."""
        return self.settled >= self.total and self.todo == 0

    @property
    def halted(self) -> bool:
        """Whether the run is paused or cancelled with questions left."""
        return self.state is not RunState.RUNNING and not self.finished

    @property
    def standing(self) -> str:
        """How the run stands, in one word: `settled`, or its state."""
        return "settled" if self.finished else self.state.value

    @property
    def over(self) -> bool:
        """Whether there is nothing to wait for: finished, or cancelled."""
        return self.finished or self.state is RunState.CANCELLED


def halted(run_id: str, state: str) -> RunHalted:
    """What is raised where a run in `state` is asked to go on."""
    return RunHalted(
        f"Run {run_id} is {state}.", state=state, hint=f"Let it go on with: python -m producer resume {run_id}"
    )
