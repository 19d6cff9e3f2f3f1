"""A run, its state and its progress."""

from __future__ import annotations

import time
from enum import StrEnum
from typing import Self

from pydantic import BaseModel, ConfigDict, Field

from contract.errors import RunHalted
from contract.names import RunId
from contract.priority import Priority
from contract.spec import RunSpec
from contract.verdict import Outcome

__all__ = ["Counts", "Run", "RunState", "Taken", "halted", "now"]


class Taken(BaseModel):
    """Which part of its source a run asks, and what it leaves out."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    #: Subset and split of the source that were requested; empty: none requested, or there is only one.
    subset: str = ""
    split: str = ""
    #: Requested subjects; empty: all.
    subjects: tuple[str, ...] = ()
    #: Only this many questions, from the start.
    limit: int | None = None
    #: Size and seed of a random sample, and whether it is stratified by subject.
    sample: int | None = None
    seed: int | None = None
    stratified: bool = False
    #: Valid rows that the sample was drawn from, those of the requested subjects; None without a sample, and for older
    #: runs that did not record it.
    among: int | None = None
    #: Valid rows that were read, asked or not; with a limit, the rest was not read.
    rows: int = 0
    #: Invalid rows that were skipped.
    skipped: int = 0
    #: Number of questions asked that have a context, and of those that repeat an earlier one word for word, regardless
    #: of the order of their choices.
    with_context: int = 0
    repeated: int = 0


class Run(BaseModel):
    """A RunSpec applied to a set of questions."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    run_id: RunId
    spec: RunSpec
    #: Where the questions came from, as the user named it.
    source: str
    questions: int = Field(ge=1)
    #: Expected accuracy of guessing, over the questions with a key; None where guessing is impossible: without a key,
    #: or where no choices are shown.
    chance: float | None
    #: Questions without a key; no accuracy includes them.
    without_key: int = 0
    #: Seconds since the epoch, from `now`.
    created_at: float
    #: Priority at which questions are sent, and lost ones sent again.
    priority: Priority = Priority.NORMAL
    #: None if nothing was selected from a source, and for older runs that did not record it.
    taken: Taken | None = None

    def without_examples(self) -> Self:
        """Return the run without its few-shot examples."""
        return self.model_copy(update={"spec": self.spec.without_examples()})

    @property
    def repeats(self) -> bool:
        """Whether it may contain the same question twice, word for word, under different ids."""
        return self.taken is not None and self.taken.repeated > 0

    @property
    def hides_contexts(self) -> bool:
        """Whether questions have contexts that their prompts do not show."""
        return self.taken is not None and self.taken.with_context > 0 and not self.spec.use_context_field


class RunState(StrEnum):
    """Whether workers begin a run's questions. In any state, questions already begun are still settled."""

    RUNNING = "running"
    #: No question is begun until the run is resumed.
    PAUSED = "paused"
    #: Like PAUSED, and no command waits for it.
    CANCELLED = "cancelled"


class Counts(BaseModel):
    """Progress of a run. `settled` is the sum of the outcomes."""

    model_config = ConfigDict(frozen=True)

    total: int
    todo: int
    outcomes: dict[Outcome, int] = Field(default_factory=dict)
    state: RunState = RunState.RUNNING

    def of(self, outcome: Outcome) -> int:
        """Return the number of questions with this outcome."""
        return self.outcomes.get(outcome, 0)

    @property
    def settled(self) -> int:
        """Number of questions with a verdict."""
        return sum(self.outcomes.values())

    @property
    def unwritten(self) -> int:
        """Number of questions not written yet: the producer is still writing, or was interrupted."""
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
        """The run's status in one word: `settled`, or its state."""
        return "settled" if self.finished else self.state.value

    @property
    def over(self) -> bool:
        """Whether there is nothing to wait for: finished, or cancelled."""
        return self.finished or self.state is RunState.CANCELLED


def now() -> float:
    """Return the time to the millisecond, as exports have it, so that a run which is loaded has the same one."""
    return round(time.time(), 3)


def halted(run_id: str, state: str) -> RunHalted:
    """Return the error for an operation that needs a run which is not paused or cancelled."""
    return RunHalted(
        f"Run {run_id} is {state}.", state=state, hint=f"Resume it with: python -m producer resume {run_id}"
    )
