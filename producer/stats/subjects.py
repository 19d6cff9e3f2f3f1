"""What is said of several subjects together: their mean, and the interval that takes them for a sample."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from producer.stats.clusters import spread
from producer.stats.proportion import Interval, Share, Z, share

__all__ = ["SubjectMean", "cluster_interval", "macro", "macro_interval", "mean_interval", "recovered_interval"]


@dataclass(frozen=True, slots=True)
class SubjectMean:
    """The mean over subjects, each counted once, with its interval."""

    value: float
    interval: Interval
    subjects: int
    #: What guessing scores in this mean, which is not what it scores over all questions where subjects have other
    #: numbers of choices; None where nobody can guess.
    chance: float | None

    def to_json(self) -> dict[str, Any]:
        """For summary.json."""
        chance = None if self.chance is None else round(self.chance, 6)
        bounds = self.interval.to_json()
        return {"value": round(self.value, 6), **bounds, "subjects": self.subjects, "chance": chance}


def cluster_interval(subjects: Sequence[Share]) -> Interval | None:
    """Interval of the accuracy over all subjects if the subjects, too, are a sample; None of fewer than two.

    Questions of one subject are right and wrong together, so this is mostly wider than Wilson's interval, which takes
    every question for a draw of its own. With r_g of n_g right in subject g, N questions, G subjects and the accuracy
    p, it is p ± t √(G/(G-1) Σ_g (r_g - p n_g)²) / N (`spread`). On either side it reaches as far as Wilson's
    at least: that two subjects are of equal accuracy proves little.
    """
    count = len(subjects)
    whole = share(sum(each.right for each in subjects), sum(each.of for each in subjects))
    if count < 2 or whole is None:
        return None
    apart = sum((each.right - whole.value * each.of) ** 2 for each in subjects)
    reach = spread(apart, count, whole.of)
    return Interval(min(whole.low, max(0.0, whole.value - reach)), max(whole.high, min(1.0, whole.value + reach)))


def macro(subjects: Sequence[Share]) -> float | None:
    """Mean of the subjects' accuracies, each subject weighing the same whatever its size; None of nothing.

    Its counterpart, micro accuracy, weighs each question the same: that is the accuracy over all questions.
    """
    return sum(each.value for each in subjects) / len(subjects) if subjects else None


def macro_interval(subjects: Sequence[Share]) -> Interval | None:
    """Interval of `macro`, the questions being samples and the subjects not: it speaks of these and no others.

    Only for subjects that have no question in common, as their shares must be independent. Of G subjects with r_g of
    n_g right it takes n = n_g + 4/G and p = (r_g + 2/G) / n for each, and is their mean ± z √(Σ p (1 - p) / n) / G.
    Without the two right and two wrong answers that it adds over all, it would be a point where all are right; Wilson's
    intervals put together hold less than 90 % where many subjects are nearly all right. Source: R. M. Price and D. G.
    Bonett, "An improved confidence interval for a linear function of binomial proportions", Computational Statistics &
    Data Analysis 45 (2004).
    """
    mean, count = macro(subjects), len(subjects)
    if mean is None:
        return None
    sizes = [each.of + 4 / count for each in subjects]
    shares = [(each.right + 2 / count) / size for each, size in zip(subjects, sizes, strict=True)]
    middle = sum(shares) / count
    variance = sum(each * (1 - each) / size for each, size in zip(shares, sizes, strict=True))
    reach = Z * math.sqrt(variance) / count
    return Interval(min(mean, max(0.0, middle - reach)), max(mean, min(1.0, middle + reach)))


def mean_interval(shares: Sequence[Share], by_contexts: Sequence[Interval | None]) -> Interval | None:
    """`macro_interval`, and at least as wide as the shares' intervals `by_contexts` make it, where they have such.

    By itself it takes every question for a draw of its own: of articles with five questions each, half of them easy and
    half of them hard, it holds the true mean 82 times in a hundred instead of 95.
    """
    apart = macro_interval(shares)
    if apart is None or not any(by_contexts):
        return apart
    each = [within or Interval(own.low, own.high) for own, within in zip(shares, by_contexts, strict=True)]
    wider = recovered_interval([own.value for own in shares], each)
    return Interval(min(apart.low, wider.low), max(apart.high, wider.high))


def recovered_interval(values: Sequence[float], intervals: Sequence[Interval]) -> Interval:
    """Interval of the mean of independent `values`, one or more, from the interval that each of them has.

    What each reaches to a side is taken for its error there: the mean reaches √(Σ reach²) / G. It serves where the
    values' intervals are not of single draws, as `macro_interval` wants it. Source: G. Y. Zou and A. Donner,
    "Construction of confidence limits about effect measures: a general approach", Statistics in Medicine 27 (2008).
    """
    count, mean = len(values), sum(values) / len(values)
    each = list(zip(values, intervals, strict=True))
    down = math.sqrt(sum((value - within.low) ** 2 for value, within in each)) / count
    up = math.sqrt(sum((within.high - value) ** 2 for value, within in each)) / count
    return Interval(mean - down, mean + up)
