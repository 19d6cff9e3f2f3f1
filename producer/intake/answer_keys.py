"""The keys of a question set: how many there are, and whether one position or choice is right too often."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from contract.question import LABELS, Question
from contract.wording import percent
from producer.stats.guessing import Guessing

__all__ = ["Keys", "Skew", "key_warnings"]

#: Significance level at which the positions of the right answers are called skewed.
SKEW_P = 0.001


class Skew(NamedTuple):
    """The most over-represented position of the right answers, or choice among them."""

    #: The position's label, or the choice's text.
    label: str
    #: Share of the questions with a key whose right answer that is.
    share: float
    #: The same share in a uniform distribution.
    expected: float
    #: Probability of an equally uneven distribution if right answers were drawn uniformly (chi-squared test).
    p: float


@dataclass
class Keys:
    """The numbers of choices of the questions, and the positions of the right ones."""

    #: Counts of the questions with a key.
    guessing: Guessing = field(default_factory=Guessing)
    #: Number of choices → questions without a key.
    _keyless: Counter[int] = field(default_factory=Counter)

    def add(self, question: Question) -> None:
        """Count one question."""
        if question.answer is None:
            self._keyless[len(question.choices)] += 1
        else:
            self.guessing.add(question)

    @property
    def keyed(self) -> int:
        """Number of questions with a key."""
        return self.guessing.of

    @property
    def without_key(self) -> int:
        """Number of questions without a key."""
        return self._keyless.total()

    @property
    def several_right(self) -> int:
        """Number of questions with several right choices."""
        return sum(count for (_, _, also_right), count in self.guessing.counts.items() if also_right)

    def remarks(self) -> list[str]:
        """Return how many questions have no key, and how many have several right choices, if any."""
        counts = (
            (self.without_key, "without a key"),
            (self.several_right, "with several right choices, any of which counts"),
        )
        return [f"{count:,} {what}" for count, what in counts if count]

    @property
    def choices(self) -> Counter[int]:
        """Number of choices → questions with that many, with or without a key."""
        found = Counter(self._keyless)
        for (choices, _, _), count in self.guessing.counts.items():
            found[choices] += count
        return found

    def _expected(self) -> dict[str, float]:
        """Return label → expected number of right answers there if positions were drawn uniformly."""
        expected = dict.fromkeys(LABELS, 0.0)
        for (choices, _, also_right), count in self.guessing.counts.items():
            for label in LABELS[:choices]:
                expected[label] += count * (1 + len(also_right)) / choices
        return expected

    def skew(self, least: float = 0.0) -> Skew | None:
        """Return the most over-represented position, if the positions are more uneven than chance explains; else None.

        Also None if its excess over the expected number is less than `least` of the questions.
        """
        return self._skew(self.guessing.answers, self._expected(), least)

    def skew_of_choices(self, least: float) -> Skew | None:
        """Return the same about the choices, if all questions have the same ones, in any order; else None."""
        choices, right = self.guessing.common_choices, self.guessing.right_texts
        return self._skew(right, dict.fromkeys(choices, right.total() / len(choices)), least) if choices else None

    def _skew(self, found: Counter[str], expected: Mapping[str, float], least: float) -> Skew | None:
        places = [each for each, number in expected.items() if number >= 5]
        if len(places) < 2:
            return None
        most = max(places, key=lambda each: found[each] - expected[each])
        if (found[most] - expected[most]) / self.keyed < least:
            return None
        from scipy.special import chdtrc  # late, as it takes long to import

        statistic = sum((found[each] - expected[each]) ** 2 / expected[each] for each in places)
        p = float(chdtrc(len(places) - 1, statistic))
        return Skew(most, found[most] / self.keyed, expected[most] / self.keyed, p) if p < SKEW_P else None


def key_warnings(keys: Keys, *, placed: bool, least: float = 0.0) -> list[str]:
    """Return a warning if one position, or one choice that all questions have, is right too often.

    It is if its share of the questions exceeds the expected one by `least` or more, and chance does not explain that.
    `placed`: whether the model is shown the choices in the file's order.
    """
    place, choice = keys.skew(least) if placed else None, keys.skew_of_choices(least)
    skew = place or choice
    if skew is None:
        return []
    which = skew.label if place else repr(skew.label)
    even = f"{percent(skew.expected)} % would be expected (p = {skew.p:.1g})"
    said = f"warning: the right answer is {which} in {percent(skew.share)} % of the questions, {even}"
    if place:
        said += ": a prompt that shows the choices rewards a model that prefers that position. Use --set shuffle=true"
    if choice:
        always = f"Always answering {choice.label!r} scores {choice.share:.3f}"
        said += f". {always}: compare accuracies with that, not with chance"
    return [f"{said}."]
