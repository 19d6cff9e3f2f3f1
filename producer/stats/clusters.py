"""Clustered standard errors for questions that are not independent: those of one subject, or about one context."""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field

from contract.question import Question, substance
from producer.stats.proportion import CONFIDENCE, Interval, Share

__all__ = ["ContextValues", "Contexts", "shared_by", "spread"]


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


#: The lowest bits of a packed number, which hold a value from -1 to 2, plus 1; the others are those of a hash.
_VALUE_BITS = 2
_VALUE = (1 << _VALUE_BITS) - 1


@dataclass(slots=True)
class ContextValues:
    """Question values (1 and 0, or differences of those) with their contexts, for `Contexts`."""

    #: Context's hash and value of each question, in 8 bytes: a run may have as many contexts as questions, and even a
    #: count for each would take ten times as much. The hash is the same in a forked process.
    packed: array[int] = field(default_factory=lambda: array("q"))
    #: Value → number of questions without a context, each its own cluster.
    alone: Counter[int] = field(default_factory=Counter)

    def add(self, context: Hashable | None, value: int) -> None:
        """Add one question."""
        if context is None:
            self.alone[value] += 1
        else:
            self.packed.append((hash(context) & ~_VALUE) | (value + 1))

    def include(self, other: ContextValues) -> None:
        """Add the values of `other`, which is from the same process or a fork of it."""
        self.packed.extend(other.packed)
        self.alone.update(other.alone)


@dataclass(frozen=True, slots=True)
class Contexts:
    """Question values summed by context."""

    #: (sum, number of questions) of a cluster → number of such clusters; a question without a context is its own.
    clusters: Counter[tuple[int, int]]

    @classmethod
    def of(cls, parts: Iterable[ContextValues]) -> Contexts:
        """Return the contexts of all `parts` together."""
        found = list(parts)
        clusters = _clusters([each.packed for each in found if each.packed])
        for each in found:
            for value, times in each.alone.items():
                clusters[value, 1] += times
        return cls(clusters)

    @property
    def sharing(self) -> int:
        """Number of questions that share their context with another question."""
        return sum(size * times for (_, size), times in self.clusters.items() if size > 1)

    @property
    def shared(self) -> int:
        """Number of contexts with several questions."""
        return sum(times for (_, size), times in self.clusters.items() if size > 1)

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
        """Number of clusters."""
        return self.clusters.total()

    @property
    def _of(self) -> int:
        return sum(size * times for (_, size), times in self.clusters.items())

    @property
    def _together(self) -> bool:
        """Whether there are several clusters, at least one of them with several questions."""
        return 1 < self._count < self._of

    @property
    def _mean(self) -> float:
        return sum(total * times for (total, _), times in self.clusters.items()) / self._of

    @property
    def _squares(self) -> float:
        """Sum of squared differences between each cluster's sum and its size times the mean."""
        mean = self._mean
        return sum(times * (total - mean * size) ** 2 for (total, size), times in self.clusters.items())


def _clusters(parts: Sequence[array[int]]) -> Counter[tuple[int, int]]:
    """Return (sum, number of questions) of each context of the packed numbers → number of such contexts."""
    if not parts:
        return Counter()
    import numpy  # late, as most runs have no contexts

    contexts = numpy.concatenate([numpy.asarray(each) for each in parts])
    contexts.sort()
    values = (contexts & _VALUE).astype(numpy.int8) - 1
    contexts >>= _VALUE_BITS
    differs = numpy.ones(len(contexts) + 1, dtype=bool)
    differs[1:-1] = contexts[1:] != contexts[:-1]
    edges = numpy.flatnonzero(differs)
    sums, sizes = numpy.add.reduceat(values, edges[:-1], dtype=numpy.int64), numpy.diff(edges)
    return Counter(zip(sums.data, sizes.data, strict=True))  # `data` yields one number at a time, not a list of all
