"""Questions that go together: those of one subject, or those about one context. Together they tell less than alone."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass, field

from contract.question import Question, substance
from producer.stats.proportion import CONFIDENCE, Interval, Share

__all__ = ["Contexts", "shared_by", "spread"]


def spread(apart: float, clusters: int, of: int) -> float:
    """How far an interval of a mean over `of` questions in two or more `clusters` reaches to either side.

    With x_g the sum in cluster g of n_g questions, m the mean and `apart` = Σ_g (x_g - m n_g)², it is
    t √(G/(G-1) `apart`) / N, t being Student's for G-1 degrees of freedom. Sources: for evaluations E. Miller, "Adding
    error bars to evals", arXiv:2411.00640 (2024), section 2.2; for the factor and t with few clusters Cameron and
    Miller, "A practitioner's guide to cluster-robust inference", Journal of Human Resources 50 (2015), section VI.
    """
    from scipy.special import stdtrit  # late: most commands show no interval

    return float(stdtrit(clusters - 1, (1 + CONFIDENCE) / 2)) * _error(apart, clusters, of)


def _error(apart: float, clusters: int, of: int) -> float:
    return math.sqrt(clusters / (clusters - 1) * apart) / of


def shared_by(question: Question, *, repeats: bool) -> Hashable | None:
    """What `question` may have in common with others: its context, or in a run that `repeats` some, all that it asks.

    Asked twice, a question is right or wrong twice, and tells what it told once; with its choices in another order, it
    tells little more.
    """
    if question.context is None and repeats:
        return substance(question.question, question.choices)
    return question.context


@dataclass(slots=True)
class Contexts:
    """Values of questions, summed up by the context that they are about: 1 and 0, or differences of those."""

    #: By the context's hash, of which the texts need not be kept; it is the same in a fork.
    sums: Counter[int] = field(default_factory=Counter)
    sizes: Counter[int] = field(default_factory=Counter)
    #: Value → questions without a context, each by itself.
    alone: Counter[int] = field(default_factory=Counter)

    def add(self, context: Hashable | None, value: int) -> None:
        """Take in one question."""
        if context is None:
            self.alone[value] += 1
            return
        key = hash(context)
        self.sizes[key] += 1
        if value:
            self.sums[key] += value

    def include(self, other: Contexts) -> None:
        """Take in what `other`, of the same process or a fork of it, has."""
        self.sums.update(other.sums)
        self.sizes.update(other.sizes)
        self.alone.update(other.alone)

    @property
    def sharing(self) -> int:
        """Questions whose context is another one's, too."""
        return sum(size for size in self.sizes.values() if size > 1)

    @property
    def shared(self) -> int:
        """Contexts of several questions."""
        return sum(size > 1 for size in self.sizes.values())

    def interval(self, apart: Interval | Share, lowest: float = 0.0) -> Interval | None:
        """The mean's interval if contexts are what was drawn; None where no two questions share one, or all the same.

        `apart` is the interval that takes every question for a draw of its own. On either side this reaches as far at
        least: that few contexts are of equal mean proves little. No mean is below `lowest`.
        """
        if not self._together:
            return None
        mean, reach = self._mean, spread(self._squares, self._count, self._of)
        return Interval(min(apart.low, max(lowest, mean - reach)), max(apart.high, min(1.0, mean + reach)))

    def p_value(self, apart: float) -> float | None:
        """Two-sided p of the mean being zero if contexts are what was drawn; None where `interval` is.

        Student's t of the mean over the error that `spread` has, for one context less than there are, so that it agrees
        with the interval. As there, `apart`, the p that takes every question for itself, is the least that it can be.
        """
        if not self._together:
            return None
        from scipy.special import stdtr

        error = _error(self._squares, self._count, self._of)
        if not error:
            return apart
        return max(apart, float(2 * stdtr(self._count - 1, -abs(self._mean) / error)))

    @property
    def _count(self) -> int:
        """Contexts, a question without one being its own."""
        return len(self.sizes) + self.alone.total()

    @property
    def _of(self) -> int:
        return self.sizes.total() + self.alone.total()

    @property
    def _together(self) -> bool:
        """Whether there are several contexts, and some of several questions."""
        return 1 < self._count < self._of

    @property
    def _mean(self) -> float:
        return (self.sums.total() + sum(value * times for value, times in self.alone.items())) / self._of

    @property
    def _squares(self) -> float:
        """How far the contexts' sums are from what the mean makes of their sizes, squared."""
        mean = self._mean
        squares = sum((self.sums[key] - mean * size) ** 2 for key, size in self.sizes.items())
        return squares + sum(times * (value - mean) ** 2 for value, times in self.alone.items())
