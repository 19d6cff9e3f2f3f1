"""Where right and chosen answers were shown, and whether a model prefers a position whatever is shown there."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from contract.choice_order import orders
from contract.question import LABELS, Question
from contract.spec import RunSpec
from contract.verdict import Verdict
from producer.stats.denominators import ANSWERED

__all__ = ["Positions", "Preference"]

#: A position is preferred if it is chosen wrongly this many standard deviations more often than errors without a
#: preference would choose it, and in this share of the answers for which it is wrong: a smaller one does not matter.
DEVIATIONS = 4.0
EXCESS = 0.1


class Preference(NamedTuple):
    """The position that a model prefers most."""

    label: str
    #: How many of all answers chose it, and for how many it is the key; of several right choices, each is a part of it.
    chosen: int
    key: float
    of: int


@dataclass(slots=True)
class Positions:
    """Answered questions with a key, by the positions of right and chosen answers in the order that was shown.

    A position is called by its label. In a `circular` run each rotation counts. Free answers (`judge`) choose none.
    """

    #: (number of choices, positions of the right ones, position chosen) → number of answers.
    kinds: Counter[tuple[int, tuple[str, ...], str]] = field(default_factory=Counter)

    def add(self, question: Question, verdict: Verdict, spec: RunSpec) -> None:
        """Count one question."""
        if question.answer is None or verdict.outcome not in ANSWERED or not spec.mode.chooses:
            return
        if not spec.reorders:
            self._add(question, question.right, verdict.choice)
            return
        # Older verdicts of a circular run do not have the rotations' choices.
        choices = verdict.rotation_choices if spec.circular else (verdict.choice,)
        for choice, order in zip(choices, orders(question, spec), strict=False):
            shown = {LABELS[original]: LABELS[place] for place, original in enumerate(order)}
            self._add(question, tuple(sorted(shown[label] for label in question.right)), shown.get(choice or ""))

    def _add(self, question: Question, right: tuple[str, ...], chosen: str | None) -> None:
        if chosen is not None and chosen in question.labels:
            self.kinds[len(question.choices), right, chosen] += 1

    def include(self, other: Positions) -> None:
        """Add the counts of `other`."""
        self.kinds.update(other.kinds)

    @property
    def of(self) -> int:
        """Number of answers."""
        return self.kinds.total()

    @property
    def mean_choices(self) -> float:
        """Mean number of choices over the answers: in a `circular` run, the design effect Σ n² / Σ n of rotations."""
        return sum(choices * count for (choices, _, _), count in self.kinds.items()) / self.of

    @property
    def labels(self) -> Sequence[str]:
        """All positions, up to the last one of the question with the most choices."""
        return LABELS[: max((choices for choices, _, _ in self.kinds), default=0)]

    @property
    def chosen(self) -> Counter[str]:
        """Position → number of answers that chose it."""
        found: Counter[str] = Counter()
        for (_, _, at), count in self.kinds.items():
            found[at] += count
        return found

    @property
    def keys(self) -> dict[str, float]:
        """Position → number of answers for which it is right.

        Of several right choices, each is an equal part of the key: if the first stood for all, or the chosen one, a
        guesser would seem biased.
        """
        found: dict[str, float] = {}
        for (_, right, _), count in self.kinds.items():
            for at in right:
                found[at] = found.get(at, 0.0) + count / len(right)
        return found

    def preferred(self, design_effect: float = 1.0) -> Preference | None:
        """Return the position that is chosen too often where it is wrong, if any is; the one most in excess.

        Without a preference, an answer is wrong with the same probability e wherever the key is, and then each of w
        wrong positions is chosen with probability e/w. Of the answers for which a position is wrong, the number that
        choose it has then the mean Σ e/w and the variance V = Σ e/w (1 - e/w), times the `design_effect` if answers are
        not independent; e is the share of wrong answers to questions with as many choices. So uneven keys are no
        preference, and neither are a model's errors.

        An excess d is judged by Bernstein's d / √(V + d/3): d / √V finds preferences in a few errors where there are
        many choices. Source: S. Boucheron, G. Lugosi and P. Massart, "Concentration inequalities" (2013), section 2.8.
        """
        excess = {at: share for at, share, deviations in self._excesses(design_effect) if deviations >= DEVIATIONS}
        at = max(excess, key=excess.__getitem__, default=None)
        if at is None or excess[at] < EXCESS:
            return None
        return Preference(at, self.chosen[at], self.keys.get(at, 0.0), self.of)

    def _excesses(self, design_effect: float) -> Iterator[tuple[str, float, float]]:
        """Yield each position, how much more often than expected it is chosen where it is wrong, and how surprisingly.

        The second is a share of these answers, the third a number of standard deviations. Positions that are not chosen
        more often than expected are left out.
        """
        errors = self._errors()
        for position in self.chosen:
            excess = variance = 0.0
            could = 0
            for (choices, right, at), count in self.kinds.items():
                if position in LABELS[:choices] and position not in right:
                    share = errors[choices, len(right)] / (choices - len(right))
                    could += count
                    excess += count * ((at == position) - share)
                    variance += count * share * (1 - share) * design_effect
            if excess > 0:
                yield position, excess / could, excess / math.sqrt(variance + excess / 3)

    def _errors(self) -> dict[tuple[int, int], float]:
        """Return (number of choices, number of right ones) → share of wrong answers."""
        answers: Counter[tuple[int, int]] = Counter()
        wrong: Counter[tuple[int, int]] = Counter()
        for (choices, right, at), count in self.kinds.items():
            answers[choices, len(right)] += count
            wrong[choices, len(right)] += count * (at not in right)
        return {kind: wrong[kind] / count for kind, count in answers.items()}

    def to_json(self) -> dict[str, Any]:
        """Return the content for summary.json."""
        chosen, keys = self.chosen, self.keys
        return {
            "of": self.of,
            "chosen": {label: chosen[label] for label in self.labels},
            "keys": {label: round(keys.get(label, 0.0), 6) for label in self.labels},
        }
