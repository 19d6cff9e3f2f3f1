"""The result of a paired comparison of two runs: its figures, and what is said of them."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from contract.ledger import Run
from contract.verdict import Outcome
from contract.wording import broken_down, number
from producer.compare.shared_questions import LeftOut
from producer.compare.spec_differences import differences
from producer.engine_differences import Engines
from producer.output import Lines
from producer.result_lines import context_json
from producer.retrieval_summary import effect_lines, recall_lines
from producer.stats import Contexts, Interval, Pairs, Share
from producer.stats.effect import Effect, RecallPairs, RetrievalEffect
from producer.stats.paired import ALPHA

__all__ = ["MANY", "UNDECIDED", "Comparison", "Failed", "Flip"]

#: Shown with the differences by subject.
MANY = "not adjusted for multiple comparisons: without any true difference, one interval in twenty still excludes zero"
#: Shown for a `Comparison` that is `undecided`.
UNDECIDED = "interval and test are approximations, and only one of them shows a difference: the result is borderline"


@dataclass(frozen=True, slots=True)
class Flip:
    """A question that exactly one of the runs got right."""

    id: str
    subject: str | None
    answer: str | None
    outcome_a: Outcome
    choice_a: str | None
    outcome_b: Outcome
    choice_b: str | None
    #: If exactly one of the runs used retrieval: its effect, and whether a relevant passage was shown.
    retrieval: Effect | None
    retrieval_hit: bool | None


@dataclass(frozen=True, slots=True)
class Failed:
    """Questions with a key that are excluded from the pairs because they failed, by run: an error is not an answer."""

    only_a: int
    only_b: int
    both: int

    @property
    def of(self) -> int:
        """Total number of failed questions."""
        return self.only_a + self.only_b + self.both

    def describe(self) -> str:
        """Return how many questions failed, and in which run."""
        sides = ((self.only_a, "only in A"), (self.only_b, "only in B"), (self.both, "in both"))
        return broken_down(sides)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Result of a paired comparison over the questions with a key that failed in neither run.

    Unanswered counts as incorrect. Failed questions are excluded: counting them as wrong would penalise a model for the
    machine it ran on.
    """

    a: Run
    b: Run
    pairs: Pairs
    #: The first questions that flipped, as many as were asked for; `pairs.discordant` is the number of all.
    flips: list[Flip] = field(repr=False)
    #: Excluded from the pairs, because the model gave no response.
    failed: Failed
    #: Questions without a key; they are excluded from all figures.
    without_key: int
    #: None unless exactly one of the runs used retrieval.
    retrieval: RetrievalEffect | None
    #: None unless both did.
    recall: RecallPairs | None
    #: The same pairs by subject; empty if the questions have no subjects, or all the same one.
    by_subject: dict[str, Pairs]
    #: Differences of the pairs, grouped by context.
    contexts: Contexts = field(repr=False)
    #: Number of pairs without an answer, and answered by the simulated engine, each as (A, B).
    unanswered: tuple[int, int]
    simulated: tuple[int, int]
    #: Number of pairs whose sides are one answer, which `enqueue --reuse` took over.
    same_answers: int
    #: Chance level of A and of B, over the pairs.
    chances: tuple[float | None, float | None]
    #: Excluded from everything above, because only one run has them.
    left_out: LeftOut = field(default_factory=LeftOut)
    engines: Engines = field(default_factory=Engines)

    def to_json(self) -> dict[str, Any]:
        """Return the content for `--json`."""
        return {
            "a": self._side_json(0, self.a, self.pairs.accuracy_a),
            "b": self._side_json(1, self.b, self.pairs.accuracy_b),
            "spec_differences": {name: {"a": a, "b": b} for name, (a, b) in self.differences.items()},
            "engine_differences": self.engines.to_json(),
            "chance": self.chances[0] if self.chances[0] == self.chances[1] else None,
            "left_out": asdict(self.left_out),
            **self.pairs.to_json(),
            **self._context_json(),
            "undecided": self.undecided,
            "either_failed": self.failed.of,
            "failed": asdict(self.failed),
            "without_key": self.without_key,
            "same_answers": self.same_answers,
            **self._retrieval_json(),
            **({"recall": self.recall.to_json()} if self.recall else {}),
            "by_subject": {name: _subject(pairs) for name, pairs in self.by_subject.items()},
            "flips": [asdict(each) for each in self.flips],
        }

    @property
    def names(self) -> tuple[str, str]:
        """Names (A or B) of the runs without and with retrieval, in that order."""
        return ("A", "B") if self.a.spec.rag is None else ("B", "A")

    @property
    def differences(self) -> dict[str, tuple[Any, Any]]:
        """The settings in which the runs differ. Whether they asked different questions is left to `left_out`."""
        return differences(self.a.spec, self.b.spec)

    @property
    def rotated(self) -> str:
        """Which choice of a flipped question is listed if a run is circular, as text; empty if that does not arise."""
        runs = " and ".join(name for name, run in (("A", self.a), ("B", self.b)) if run.spec.circular)
        if not (runs and self.flips):
            return ""
        return (
            f"in {runs}, a choice is the most frequent one of a question's rotations, "
            "and correct only if all of them are"
        )

    @property
    def besides_retrieval(self) -> list[str]:
        """Settings other than retrieval in which the runs differ, which may have caused a changed answer.

        Questions that the run with retrieval asks with their own context are left out of its effect, but others may be
        asked with theirs by the run without retrieval alone.
        """
        without, retrieved = (self.a, self.b) if self.a.spec.rag is None else (self.b, self.a)
        names = {name.partition(".")[0] for name in self.differences} - {"rag"}
        if without.spec.use_context_field and not retrieved.spec.use_context_field:
            names.add("rag.use_context_field")
        return sorted(names)

    @property
    def context_interval(self) -> Interval | None:
        """Interval of the difference clustered by context; None if no questions share contexts."""
        return self.contexts.interval(self.pairs, lowest=-1.0)

    @property
    def interval(self) -> Interval:
        """The interval to quote: clustered by context if questions share contexts."""
        return self.context_interval or self.pairs.interval()

    @property
    def p_value(self) -> float:
        """McNemar's p-value, or the one clustered by context if questions share contexts."""
        clustered = self.contexts.p_value(self.pairs)
        return self.pairs.p_value() if clustered is None else clustered

    @property
    def undecided(self) -> bool:
        """Whether test and interval, two approximations, disagree about the presence of a difference."""
        bounds = self.interval
        return (bounds.low > 0 or bounds.high < 0) != (self.p_value < ALPHA)

    @property
    def reused(self) -> str:
        """How many pairs cannot differ, as both runs have one and the same answer, as text; empty if there are none."""
        if not self.same_answers:
            return ""
        counted = f"{self.same_answers:,} of {number(self.pairs.of, 'pair')}"
        return f"in {counted}, both runs have the same answer, taken over by `enqueue --reuse`: these cannot differ"

    def retrieval_lines(self) -> Lines:
        """Return the effect of retrieval if exactly one of the runs used it; a comparison of recall if both did."""
        if self.retrieval:
            return effect_lines(self.retrieval, *self.names, self.besides_retrieval)
        return recall_lines(self.recall) if self.recall else []

    def _side_json(self, at: int, run: Run, accuracy: Share) -> dict[str, Any]:
        counted = {"unanswered": self.unanswered[at], "simulated": self.simulated[at], "chance": self.chances[at]}
        return {"run_id": run.run_id, "accuracy_pairs": accuracy.to_json(), **counted}

    def _context_json(self) -> dict[str, Any]:
        found = context_json(self.contexts, self.context_interval, p_value=self.p_value)
        return {"difference_context_interval": found} if found else {}

    def _retrieval_json(self) -> dict[str, Any]:
        if self.retrieval is None:
            return {}
        without, retrieved = (name.lower() for name in self.names)
        runs = {"without": without, "with": retrieved, "also_differ_in": self.besides_retrieval}
        return {"retrieval": {**runs, **self.retrieval.to_json()}}


def _subject(pairs: Pairs) -> dict[str, Any]:
    return {"a": pairs.accuracy_a.to_json(), "b": pairs.accuracy_b.to_json(), **pairs.to_json()}
