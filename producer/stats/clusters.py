"""Clustered standard errors for questions that are not independent: those of one subject, or about one context."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass, field

from contract.question import Question, substance
from producer.stats.proportion import CONFIDENCE, Interval, Share

__all__ = ["Contexts", "shared_by", "spread"]


def spread(apart: float, clusters: int, of: int) -> float:
    """Return the half-width of the interval of a mean over `of` questions in two or more `clusters`.

    With x_g the sum over the n_g questions of cluster g, m the mean and `apart` = Σ_g (x_g - m n_g)², it is
    t √(G/(G-1) `apart`) / N, where t is Student's quantile for G-1 degrees of freedom. Sources: for evaluations
    E. Miller, "Adding error bars to evals", arXiv:2411.00640 (2024), section 2.2; for the factor and t with few
    clusters Cameron and Miller, "A practitioner's guide to cluster-robust inference", Journal of Human Resources 50
    (2015), section VI.
    """
    from scipy.special import stdtrit  # imported late: most commands show no interval

    return float(stdtrit(clusters - 1, (1 + CONFIDENCE) / 2)) * _error(apart, clusters, of)


def _error(apart: float, clusters: int, of: int) -> float:
    return math.sqrt(clusters / (clusters - 1) * apart) / of


def shared_by(question: Question, *, repeats: bool) -> Hashable | None:
    """Return the key of the question's cluster: its context or, if the run `repeats` questions, its content.

    A duplicate question is right or wrong together with the original and adds no information; with its choices in
    another order, it adds little.
    """
    if question.context is None and repeats:
        return substance(question.question, question.choices)
    return question.context


@dataclass(slots=True)
class Contexts:
    """Question values (1 and 0, or differences of those) summed by context."""

    #: Keyed by the context's hash, so that texts need not be kept (about 90 bytes each); the hash is the same in a
    #: forked process.
    sums: Counter[int] = field(default_factory=Counter)
    sizes: Counter[int] = field(default_factory=Counter)
    #: Value → number of questions without a context, each its own cluster.
    alone: Counter[int] = field(default_factory=Counter)

    def add(self, context: Hashable | None, value: int) -> None:
        """Add one question."""
        if context is None:
            self.alone[value] += 1
            return
        key = hash(context)
        self.sizes[key] += 1
        if value:
            self.sums[key] += value

    def include(self, other: Contexts) -> None:
        """Add the counts of `other`, which is from the same process or a fork of it."""
        self.sums.update(other.sums)
        self.sizes.update(other.sizes)
        self.alone.update(other.alone)

    @property
    def sharing(self) -> int:
        """Number of questions that share their context with another question."""
        return sum(size for size in self.sizes.values() if size > 1)

    @property
    def shared(self) -> int:
        """Number of contexts with several questions."""
        return sum(size > 1 for size in self.sizes.values())

    def interval(self, apart: Interval | Share, lowest: float = 0.0) -> Interval | None:
        """Return the mean's interval with contexts as the sampling unit.

        None if no two questions share a context, or all share the same one. `apart` is the interval that treats
        questions as independent; the result is never narrower on either side, since equal means in a few contexts
        prove little. No mean is below `lowest`.
        """
        if not self._together:
            return None
        mean, reach = self._mean, spread(self._squares, self._count, self._of)
        return Interval(min(apart.low, max(lowest, mean - reach)), max(apart.high, min(1.0, mean + reach)))

    def p_value(self, apart: float) -> float | None:
        """Return the two-sided p-value of a zero mean with contexts as the sampling unit; None if `interval` is None.

        Student's t of the mean over the standard error that `spread` uses, with one degree of freedom less than there
        are contexts, so that it agrees with the interval. Likewise, it is never below `apart`, the p-value that treats
        questions as independent.
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
        """Number of clusters; a question without a context is its own cluster."""
        return len(self.sizes) + self.alone.total()

    @property
    def _of(self) -> int:
        return self.sizes.total() + self.alone.total()

    @property
    def _together(self) -> bool:
        """Whether there are several clusters, at least one of them with several questions."""
        return 1 < self._count < self._of

    @property
    def _mean(self) -> float:
        return (self.sums.total() + sum(value * times for value, times in self.alone.items())) / self._of

    @property
    def _squares(self) -> float:
        """Sum of squared differences between each cluster's sum and its size times the mean."""
        mean = self._mean
        squares = sum((self.sums[key] - mean * size) ** 2 for key, size in self.sizes.items())
        return squares + sum(times * (value - mean) ** 2 for value, times in self.alone.items())
