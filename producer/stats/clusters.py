"""Clustered standard errors for questions that are not independent: those of one subject, or about one context."""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from contract.question import Question, substance
from producer.stats.paired import Pairs
from producer.stats.proportion import CONFIDENCE, Figure, Interval

__all__ = ["ClusterKeys", "ContextValues", "Contexts", "shared_by"]


class ClusterKeys(NamedTuple):
    """The clusters that a question belongs to; None where it is a cluster by itself."""

    context: Hashable | None
    #: Its text and choices, in a run that hides contexts: they are all that its prompts show. None in any other run.
    text: Hashable | None = None


def shared_by(question: Question, *, repeats: bool, hides_contexts: bool) -> ClusterKeys:
    """Return the clusters of a question: its context or, if the run `repeats` questions, its content.

    A duplicate question is right or wrong together with the original and adds no information; with its choices in
    another order, it adds little. In a run that `hides_contexts`, questions that differ only by them are duplicates.
    """
    text = substance(question.question, question.choices) if repeats or hides_contexts else None
    context = text if repeats and question.context is None else question.context
    return ClusterKeys(context, text if hides_contexts else None)


#: The lowest bits of a packed number, which hold a value from -1 to 2, plus 1; the others are those of a hash.
_VALUE_BITS = 2
_VALUE = (1 << _VALUE_BITS) - 1


@dataclass(slots=True)
class ContextValues:
    """Question values (1 and 0, or differences of those) with their contexts, for `Contexts`."""

    #: Context's hash and value of each question, in 8 bytes: a run may have as many contexts as questions, and even a
    #: count for each would take ten times as much. The hash is the same in a forked process.
    packed: array[int] = field(default_factory=lambda: array("q"))
    #: The same with the hash of each question's text, in a run that hides contexts.
    by_text: array[int] = field(default_factory=lambda: array("q"))
    #: Value → number of questions without a context, each its own cluster.
    alone: Counter[int] = field(default_factory=Counter)

    def add(self, keys: ClusterKeys, value: int) -> None:
        """Add one question."""
        if keys.context is None:
            self.alone[value] += 1
        else:
            self.packed.append(_pack(keys.context, value))
        if keys.text is not None:
            self.by_text.append(_pack(keys.text, value))

    def include(self, other: ContextValues) -> None:
        """Add the values of `other`, which is from the same process or a fork of it."""
        self.packed.extend(other.packed)
        self.by_text.extend(other.by_text)
        self.alone.update(other.alone)


@dataclass(frozen=True, slots=True)
class Contexts:
    """Question values summed by context, or by any other cluster.

    Here N questions with mean m are in G clusters, and x_g is the sum over the n_g questions of cluster g. Intervals
    and tests use the standard error of `_error`, and Student's t with G-1 degrees of freedom: A. C. Cameron and D. L.
    Miller, "A practitioner's guide to cluster-robust inference", Journal of Human Resources 50 (2015), section VI.

    The methods give the numbers of one example: ten contexts of four questions, in six of which all four are right, in
    four two. So N = 40, G = 10 and m = 32/40 = 0.8, and a question's value has the variance m (1 - m) = 0.16.
    """

    #: (sum, number of questions) of a cluster → number of such clusters; a question without a context is its own.
    clusters: Counter[tuple[int, int]]
    #: Whether the clusters are questions with the same text, whose contexts differ but are not shown.
    by_text: bool = False

    @classmethod
    def of(cls, parts: Iterable[ContextValues]) -> Contexts:
        """Return the contexts of all `parts` together; in a run that hides them, the texts if more depends on these."""
        found = list(parts)
        clusters = _clusters([each.packed for each in found if each.packed])
        for each in found:
            for value, times in each.alone.items():
                clusters[value, 1] += times
        contexts, texts = cls(clusters), _clusters([each.by_text for each in found if each.by_text])
        if not texts:
            return contexts
        return max(contexts, cls(texts, by_text=True), key=lambda each: each.largest_design_effect)

    @property
    def unit(self) -> str:
        """What the questions of a cluster have in common."""
        return "text" if self.by_text else "context"

    @property
    def sharing(self) -> int:
        """Number of questions that share their context with another question."""
        return sum(size * times for (_, size), times in self.clusters.items() if size > 1)

    @property
    def shared(self) -> int:
        """Number of contexts with several questions."""
        return sum(times for (_, size), times in self.clusters.items() if size > 1)

    @property
    def is_single(self) -> bool:
        """Whether all questions, several, share one context: nothing is known about the questions of others."""
        return self._count == 1 < self._questions

    @property
    def largest_design_effect(self) -> float:
        """The design effect Σ n_g² / N, where all questions of a cluster have the same value; 1 if none share one.

        Source: L. Kish, "Survey sampling" (1965).
        """
        return self._sizes_squared / self._questions

    def interval(self, figure: Figure, lowest: float = 0.0) -> Interval | None:
        """Return the interval of `figure`, the mean, with contexts as the sampling unit; no mean is below `lowest`.

        None if no two questions share a context, or all share the same one.
        """
        return self.clustered(figure, lowest) if self._has_clusters else None

    def clustered(self, figure: Figure, lowest: float = 0.0) -> Interval:
        """Return the interval of `figure` with two or more clusters as the sampling unit, whatever their sizes.

        On either side, the widest of three: m ± t times the standard error; the interval for independent questions; and
        the same for as many of them as tell as much as these do (`_effective`). The first alone shrinks to a point if
        all clusters have the same mean, as they often do if nearly all is right: where questions are right or wrong
        together, 20 contexts of 5 questions held an accuracy of 0.95 in 64 of 100 samples, and in all with the third.

        Example: 0.8 ± 2.262 · 0.0816 is 0.615 to 0.985; Wilson's interval is 0.652 to 0.895 for 40 questions and 0.579
        to 0.921 for 19.2. The widest on either side is 0.579 to 0.985.
        """
        mean, reach = self._mean, _quantile(self._count) * self._error(figure.variance)
        found = figure.interval_at(self._questions), figure.interval_at(self._effective(figure.variance))
        low, high = min(each.low for each in found), max(each.high for each in found)
        return Interval(min(low, max(lowest, mean - reach)), max(high, min(1.0, mean + reach)))

    def p_value(self, pairs: Pairs) -> float | None:
        """Return the two-sided p-value of a zero mean with contexts as the sampling unit; None if `interval` is None.

        Student's t of the mean difference of `pairs` over its standard error, so that it agrees with the interval. It
        is never below the p-value of `pairs`, which treats them as independent, nor below 2⁻ᵏ, where k contexts have a
        mean other than zero: that is the mid-p of the sign test if all k have the same sign, and no test that only
        assumes that contexts are symmetric under the null hypothesis finds less. Student's t alone finds zero for five
        contexts with the same mean. Source: I. A. Canay, J. P. Romano and A. M. Shaikh, "Randomization tests under an
        approximate symmetry assumption", Econometrica 85 (2017).
        """
        if not self._has_clusters:
            return None
        from scipy.special import stdtr

        signed = sum(times for (total, _), times in self.clusters.items() if total)
        least, error = max(pairs.p_value(), 2.0**-signed), self._error(pairs.variance)
        return max(least, float(2 * stdtr(self._count - 1, -abs(self._mean) / error))) if error else least

    def _effective(self, variance: float) -> float:
        """Return how many independent questions tell as much as these, if `variance` is that of a question's value.

        N over the design effect, which is the squared standard error over that of independent questions, but at least
        1; and times (t_{N-1} / t_{G-1})², since few clusters tell little about it. At least the number where all
        questions of a cluster have the same value; and just that if all values are equal, when the design effect cannot
        be seen. Sources: E. L. Korn and B. I. Graubard, "Confidence intervals for proportions with small expected
        number of positive counts estimated from survey data", Survey Methodology 24 (1998); for Wilson's interval N.
        Dean and M. Pagano, "Evaluating confidence interval methods for binomial proportions in clustered surveys",
        Journal of Survey Statistics and Methodology 3 (2015).

        Example: independent questions have the squared error 0.16/40 = 0.004, these 0.00667; the design effect is 1.667
        and leaves 24, times (2.023 / 2.262)² is 19.2. With the same values in all of a cluster, 40/4 = 10 are left.
        """
        least = self._questions / self.largest_design_effect
        if not variance:
            return least
        effect = max(1.0, self._error(variance) ** 2 * self._questions / variance)
        return max(least, self._questions / effect * (_quantile(self._questions) / _quantile(self._count)) ** 2)

    def _error(self, variance: float) -> float:
        """Return the standard error of the mean, if `variance` is that of a question's value; the larger of two.

        One is the jackknife's, √((G-1)/G Σ_g d_g²), where d_g = (x_g - m n_g) / (N - n_g) is by how much m would be
        lower without cluster g: CV₃ of J. G. MacKinnon, M. Ø. Nielsen and M. D. Webb, "Fast and reliable jackknife and
        bootstrap methods for cluster-robust inference", Journal of Applied Econometrics 38 (2023). With clusters of one
        size it is the usual robust error, √(G/(G-1) Σ_g (x_g - m n_g)²) / N (E. Miller, "Adding error bars to evals",
        arXiv:2411.00640, 2024, section 2.2). That one is too small if a few clusters have most of the questions, as m
        is then little else than their own mean (A. V. Carter, K. T. Schnepel and D. G. Steigerwald, "Asymptotic
        behavior of a t-test robust to cluster heterogeneity", Review of Economics and Statistics 99, 2017). The other
        is that of `_modelled`; with clusters of one size, it is the same or 0.

        Example: √(9/10 · (6 · 0.8² + 4 · 1.2²)) / 36 = √8.64 / 36 = 0.0816, as x_g is 4 or 2, and m n_g is 3.2.
        """
        return max(self._jackknife, math.sqrt(self._modelled(variance)) / self._questions)

    def _modelled(self, variance: float) -> float:
        """Return the variance of the sum of all values if questions are equally alike in all clusters; 0 if not alike.

        It is N W + b Σ_g n_g². By analysis of variance, W is the mean square within clusters, B that between them,
        b = (B - W) / n₀ the variance of the clusters' own means, and n₀ = (N - Σ_g n_g² / N) / (G-1). Source: M. S.
        Ridout, C. G. B. Demétrio and D. Firth, "Estimating intraclass correlation for binary data", Biometrics 55
        (1999).

        Example: the squares between clusters are 6 · 4 · 0.2² + 4 · 4 · 0.3² = 2.4, and all are 40 · 0.16 = 6.4. So
        W = 4.0/30 = 0.133, B = 2.4/9 = 0.267, n₀ = (40 - 160/40) / 9 = 4, b = 0.0333, and the variance is 40 · 0.133 +
        0.0333 · 160 = 10.67.
        """
        of, count, mean = self._questions, self._count, self._mean
        if count == of:
            return 0.0
        between = sum(times * size * (total / size - mean) ** 2 for (total, size), times in self.clusters.items())
        within = max(0.0, variance * of - between) / (of - count)
        between /= count - 1
        typical_size = (of - self._sizes_squared / of) / (count - 1)
        means_variance = (between - within) / typical_size
        return of * within + means_variance * self._sizes_squared if means_variance > 0 else 0.0

    @property
    def _jackknife(self) -> float:
        mean, of, count = self._mean, self._questions, self._count
        squares = sum(
            times * ((total - mean * size) / (of - size)) ** 2 for (total, size), times in self.clusters.items()
        )
        return math.sqrt((count - 1) / count * squares)

    @property
    def _sizes_squared(self) -> int:
        return sum(size * size * times for (_, size), times in self.clusters.items())

    @property
    def _count(self) -> int:
        """Number of clusters."""
        return self.clusters.total()

    @property
    def _questions(self) -> int:
        """Number of questions."""
        return sum(size * times for (_, size), times in self.clusters.items())

    @property
    def _has_clusters(self) -> bool:
        """Whether there are several clusters, at least one of them with several questions."""
        return 1 < self._count < self._questions

    @property
    def _mean(self) -> float:
        return sum(total * times for (total, _), times in self.clusters.items()) / self._questions


def _pack(key: Hashable, value: int) -> int:
    return (hash(key) & ~_VALUE) | (value + 1)


def _quantile(count: int) -> float:
    """Return Student's quantile for a 95 % interval with `count` - 1 degrees of freedom."""
    from scipy.special import stdtrit  # imported late: most commands show no interval

    return float(stdtrit(count - 1, (1 + CONFIDENCE) / 2))


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
