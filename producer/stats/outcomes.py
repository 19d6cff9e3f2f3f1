"""How the questions of a run ended, and how right the model was.

Two shares, always side by side: over **all** questions that have a key and a verdict, where unanswered and failed
ones count as not right; and over the **answered** ones among them. Where questions failed, a third one leaves out only
these, as paired comparisons and the results' column `correct` do. Questions without a key are in none.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any

from contract.ledger import Counts
from contract.question import Question
from contract.verdict import Outcome, Verdict
from producer.stats.calibration import Calibration
from producer.stats.denominators import ALL, ANSWERED, HEARD
from producer.stats.guessing import Guessing
from producer.stats.proportion import Share, Sum, share

__all__ = ["Tally"]


def _guessed() -> defaultdict[Outcome, Guessing]:
    return defaultdict(Guessing)


@dataclass
class Tally:
    """Outcomes counted, those of questions with and without a key apart, and what was claimed beside them."""

    keyed: Counter[Outcome] = field(default_factory=Counter)
    keyless: Counter[Outcome] = field(default_factory=Counter)
    unsettled: int = 0
    #: Verdicts that say `simulated`.
    simulated: int = 0
    #: Verdicts that say `truncated`.
    truncated: int = 0
    #: Choices whose score another one has, too: the one shown first was taken. In bfloat16 this is no rare thing.
    tied: int = 0
    #: Probability that the model put on any label at all (`letter`).
    label_mass: Sum = field(default_factory=Sum)
    calibration: Calibration = field(default_factory=Calibration)
    #: By outcome, what guessing scores at the questions with a key.
    guessed: defaultdict[Outcome, Guessing] = field(default_factory=_guessed)

    def add(self, question: Question, verdict: Verdict | None) -> None:
        """Count one question."""
        if verdict is None:
            self.unsettled += 1
            return
        (self.keyless if question.answer is None else self.keyed)[verdict.outcome] += 1
        self.simulated += verdict.simulated
        self.truncated += verdict.truncated
        self.tied += verdict.margin == 0
        if verdict.label_mass is not None:
            self.label_mass.add(verdict.label_mass)
        self.calibration.add(question, verdict)
        self.guessed[verdict.outcome].add(question)

    @classmethod
    def over(cls, parts: Iterable[Tally]) -> Tally:
        """What all `parts` have counted."""
        whole = cls()
        for part in parts:
            whole.include(part)
        return whole

    def include(self, other: Tally) -> None:
        """Count what `other` has counted."""
        self.keyed.update(other.keyed)
        self.keyless.update(other.keyless)
        self.unsettled += other.unsettled
        self.simulated += other.simulated
        self.truncated += other.truncated
        self.tied += other.tied
        self.label_mass.include(other.label_mass)
        self.calibration.include(other.calibration)
        for outcome, guessing in other.guessed.items():
            self.guessed[outcome].include(guessing)

    @classmethod
    def of_counts(cls, counts: Counts, without_key: int = 0) -> Tally:
        """From the ledger's counters, of a run with so many questions `without_key`.

        They know neither truncation, ties nor confidence, and cannot tell an unanswered or failed question without a
        key from others before the run is finished: until then these are among those with a key. Afterwards it is known
        how many there are, but not which of the two: failed ones are taken for them first. That changes no share over
        all, only the one without failed questions.
        """
        keyed = Counter(counts.outcomes)
        keyless = Counter({Outcome.ANSWERED: keyed.pop(Outcome.ANSWERED, 0)})
        if counts.finished:
            for outcome in (Outcome.FAILED, Outcome.UNANSWERED):
                keyless[outcome] = min(keyed[outcome], max(0, without_key - keyless.total()))
                keyed[outcome] -= keyless[outcome]
        return cls(keyed, keyless, counts.total - counts.settled)

    @property
    def settled(self) -> int:
        """Questions with a verdict."""
        return self.keyed.total() + self.keyless.total()

    @property
    def total(self) -> int:
        """All questions."""
        return self.settled + self.unsettled

    def mean_label_mass(self) -> float | None:
        """Its mean over the answers that have one; None of none. Near zero, the choices are noise."""
        return self.label_mass.total / self.label_mass.of if self.label_mass.of else None

    def count(self, outcome: Outcome) -> int:
        """Questions that ended as `outcome`, with a key or without."""
        return self.keyed[outcome] + self.keyless[outcome]

    def over_all(self) -> Share | None:
        """Share of right ones among all with key and verdict."""
        return self.accuracy(ALL)

    def without_failed(self) -> Share | None:
        """Share of right ones among those on which the model was heard; None where none failed, as it is then of all.

        An error is no wrong answer: this is the model's figure, where the one over all is also the machine's.
        """
        return self.accuracy(HEARD) if self.keyed[Outcome.FAILED] else None

    def over_answered(self) -> Share | None:
        """Share of right ones among those where the model chose."""
        return self.accuracy(ANSWERED)

    def accuracy(self, outcomes: Collection[Outcome]) -> Share | None:
        """Share of right ones among those with a key that ended as one of `outcomes`."""
        return share(self.keyed[Outcome.CORRECT], sum(self.keyed[each] for each in outcomes))

    def guessing(self, outcomes: Collection[Outcome] = ALL) -> Guessing:
        """What guessing scores at the questions with a key that ended as one of `outcomes`."""
        whole = Guessing()
        for each in outcomes:
            whole.include(self.guessed[each])
        return whole

    def rates(self) -> dict[str, Any]:
        """Shares of what is worth less than an answer, or none, among all `of` with a verdict, keyed or not.

        `truncated` are texts that ran into `max_tokens`, as in the results' column of that name.
        """
        counted = {
            "unanswered": self.count(Outcome.UNANSWERED),
            "failed": self.count(Outcome.FAILED),
            "simulated": self.simulated,
            "truncated": self.truncated,
            "tied": self.tied,
        }
        shares = {name: round(n / self.settled, 6) if self.settled else None for name, n in counted.items()}
        return {"of": self.settled, **shares}

    def to_json(self) -> dict[str, Any]:
        """For summary.json and `--json`."""
        over_all, over_answered, without_failed = self.over_all(), self.over_answered(), self.without_failed()
        return {
            "total": self.total,
            "settled": self.settled,
            "unsettled": self.unsettled,
            "outcomes": {outcome.value: self.count(outcome) for outcome in Outcome},
            "without_key": self.keyless.total(),
            "accuracy_all": over_all.to_json() if over_all else None,
            **({"accuracy_without_failed": without_failed.to_json()} if without_failed else {}),
            "accuracy_answered": over_answered.to_json() if over_answered else None,
        }
