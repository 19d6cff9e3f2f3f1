"""Outcome counts of a run, and its accuracies.

Two accuracies are always given together: over **all** questions that have a key and a verdict, where unanswered and
failed ones count as incorrect; and over the **answered** ones among them. If questions failed, a third accuracy
excludes only these, as paired comparisons and the results' column `correct` do. Questions without a key are excluded
from all three.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, Self

from contract.ledger import Counts, Run
from contract.question import Question
from contract.verdict import Outcome, Verdict
from producer.stats.calibration import Calibration
from producer.stats.denominators import ALL, ANSWERED, RESPONDED
from producer.stats.guessing import Guessing
from producer.stats.proportion import Share, Sum, share

__all__ = ["Outcomes", "Tally"]


def _guessed() -> defaultdict[Outcome, Guessing]:
    return defaultdict(Guessing)


@dataclass
class Outcomes:
    """Outcome counts, separately for questions with and without a key: all that is told of a single subject."""

    keyed: Counter[Outcome] = field(default_factory=Counter)
    keyless: Counter[Outcome] = field(default_factory=Counter)
    unsettled: int = 0
    #: Whether it is known how many of the unanswered and failed questions have a key, and how many of these failed: the
    #: ledger's counters do not always tell.
    keys_known: bool = True
    failures_known: bool = True
    #: Guessing baselines of the questions with a key, by outcome.
    guessed: defaultdict[Outcome, Guessing] = field(default_factory=_guessed)

    def add(self, question: Question, verdict: Verdict | None) -> None:
        """Count one question."""
        if verdict is None:
            self.unsettled += 1
            return
        (self.keyless if question.answer is None else self.keyed)[verdict.outcome] += 1
        self.guessed[verdict.outcome].add(question)

    @classmethod
    def of_counts(cls, counts: Counts, without_key: int) -> Self:
        """Create a tally from the ledger's counters, for a run with `without_key` questions without a key.

        The counters contain neither truncation, ties nor confidence, nor which unanswered or failed questions have no
        key. These are counted among those with a key until there would be more of them than there are; the rest has
        none, failed ones first. Where the numbers allow anything else, the figures that it would change are unknown. In
        a finished run that can only be the accuracy excluding failed questions.
        """
        keyed = Counter(counts.outcomes)
        keyless = Counter({Outcome.ANSWERED: keyed.pop(Outcome.ANSWERED, 0)})
        # Right and wrong ones have a key. Of those without a choice, from `fewest` to `most` have none.
        without_choice = keyed[Outcome.FAILED] + keyed[Outcome.UNANSWERED]
        fewest = max(0, keyed.total() - (counts.total - without_key))
        most = max(fewest, min(without_choice, without_key - keyless[Outcome.ANSWERED]))
        # It may be known how many have none, but not which of both kinds they are.
        both_kinds = keyed[Outcome.FAILED] > 0 and keyed[Outcome.UNANSWERED] > 0
        mixed = both_kinds and 0 < fewest < without_choice
        # If none is answered, it depends on those that failed whether there is an accuracy at all.
        keys_known = fewest == most and not (mixed and keyed.total() == without_choice)
        left = fewest
        for outcome in (Outcome.FAILED, Outcome.UNANSWERED):
            keyless[outcome] = min(keyed[outcome], left)
            keyed[outcome] -= keyless[outcome]
            left -= keyless[outcome]
        return cls(
            keyed,
            keyless,
            counts.total - counts.settled,
            keys_known=keys_known,
            failures_known=keys_known and not mixed,
        )

    def include(self, other: Self) -> None:
        """Count what `other` has counted."""
        self.keyed.update(other.keyed)
        self.keyless.update(other.keyless)
        self.unsettled += other.unsettled
        for outcome, guessing in other.guessed.items():
            self.guessed[outcome].include(guessing)

    @property
    def settled(self) -> int:
        """Number of questions with a verdict."""
        return self.keyed.total() + self.keyless.total()

    @property
    def total(self) -> int:
        """Number of all questions."""
        return self.settled + self.unsettled

    def count(self, outcome: Outcome) -> int:
        """Return the number of questions with this outcome, with or without a key."""
        return self.keyed[outcome] + self.keyless[outcome]

    def over_all(self) -> Share | None:
        """Return the accuracy over all questions with a key and a verdict; None if there are none, or all failed.

        In the latter case, it would only describe the machine: an error is not a wrong answer. None also if unknown.
        """
        return self.accuracy(ALL) if self.keys_known and not self.all_failed else None

    @property
    def all_failed(self) -> bool:
        """Whether there are verdicts on questions with a key, and all of them are failures."""
        return 0 < self.keyed[Outcome.FAILED] == self.keyed.total()

    def without_failed(self) -> Share | None:
        """Return the accuracy excluding failed questions; None if none failed, as it then equals the one over all.

        An error is not a wrong answer: this figure describes the model, the one over all also the machine. None also if
        unknown.
        """
        return self.accuracy(RESPONDED) if self.failures_known and self.keyed[Outcome.FAILED] else None

    def over_answered(self) -> Share | None:
        """Return the accuracy over the questions in which the model made a choice."""
        return self.accuracy(ANSWERED)

    def accuracy(self, outcomes: Collection[Outcome]) -> Share | None:
        """Return the accuracy over the questions with a key and one of `outcomes`."""
        return share(self.keyed[Outcome.CORRECT], sum(self.keyed[each] for each in outcomes))

    def guessing(self, outcomes: Collection[Outcome] = ALL) -> Guessing:
        """Return the guessing baselines over the questions with a key and one of `outcomes`."""
        whole = Guessing()
        for outcome, guessing in self.guessed.items():
            if outcome in outcomes:
                whole.include(guessing)
        return whole

    def chance(self, run: Run, outcomes: Collection[Outcome] = ALL) -> float | None:
        """Return the chance level of the questions with a key and one of `outcomes`; that of `run` if unknown."""
        guessing = self.guessing(outcomes)
        return guessing.chance(run.spec) if guessing.of else run.chance

    def to_json(self) -> dict[str, Any]:
        """Return the content for summary.json and `--json`."""
        over_all, over_answered, without_failed = self.over_all(), self.over_answered(), self.without_failed()
        # Null where it is unknown; without it, none would seem to have failed.
        failed = without_failed or (self.count(Outcome.FAILED) and not self.failures_known)
        return {
            "total": self.total,
            "settled": self.settled,
            "unsettled": self.unsettled,
            "outcomes": {outcome.value: self.count(outcome) for outcome in Outcome},
            "without_key": self.keyless.total() if self.keys_known else None,
            "accuracy_all": over_all.to_json() if over_all else None,
            **({"accuracy_without_failed": without_failed.to_json() if without_failed else None} if failed else {}),
            "accuracy_answered": over_answered.to_json() if over_answered else None,
        }


@dataclass
class Tally(Outcomes):
    """Outcome counts of a run, with calibration and other quality measures."""

    #: Number of verdicts with `simulated`.
    simulated: int = 0
    #: Number of verdicts with `truncated`, and of those among them with `context_full`.
    truncated: int = 0
    context_full: int = 0
    #: Number of ties for the best score, in which the first choice shown was chosen. In bfloat16 they are not rare.
    tied: int = 0
    #: Probability that the model assigned to all labels together (`letter`).
    label_mass: Sum = field(default_factory=Sum)
    calibration: Calibration = field(default_factory=Calibration)

    def add(self, question: Question, verdict: Verdict | None) -> None:
        """Count one question."""
        super().add(question, verdict)
        if verdict is None:
            return
        self.simulated += verdict.simulated
        self.truncated += verdict.truncated
        self.context_full += verdict.context_full
        self.tied += verdict.margin == 0
        if verdict.label_mass is not None:
            self.label_mass.add(verdict.label_mass)
        self.calibration.add(question, verdict)

    def include(self, other: Self) -> None:
        """Count what `other` has counted."""
        super().include(other)
        self.simulated += other.simulated
        self.truncated += other.truncated
        self.context_full += other.context_full
        self.tied += other.tied
        self.label_mass.include(other.label_mass)
        self.calibration.include(other.calibration)

    def mean_label_mass(self) -> float | None:
        """Return the mean label mass over the answers that have one; None without any. Near zero, choices are noise."""
        return self.label_mass.total / self.label_mass.of if self.label_mass.of else None

    def rates(self) -> dict[str, Any]:
        """Return the rates of missing or doubtful answers among all `of` questions with a verdict, with a key or not.

        `truncated` counts texts that were cut off, as in the results' column of that name, and `context_full` those of
        them that reached the end of the model's context before `max_tokens`.
        """
        counted = {
            "unanswered": self.count(Outcome.UNANSWERED),
            "failed": self.count(Outcome.FAILED),
            "simulated": self.simulated,
            "truncated": self.truncated,
            "context_full": self.context_full,
            "tied": self.tied,
        }
        shares = {name: round(n / self.settled, 6) if self.settled else None for name, n in counted.items()}
        return {"of": self.settled, **shares}
