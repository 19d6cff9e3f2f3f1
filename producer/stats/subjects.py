"""Statistics over subjects: the macro average, and intervals that treat subjects as fixed or as a sample."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from producer.stats.clusters import Contexts
from producer.stats.proportion import Interval, Share, Z, share

__all__ = ["SubjectMean", "cluster_interval", "macro", "macro_interval", "mean_interval", "recovered_interval"]


@dataclass(frozen=True, slots=True)
class SubjectMean:
    """The mean over subjects, each counted once, with its interval."""

    value: float
    interval: Interval
    subjects: int
    #: Number of subjects that are left out, because all their questions failed: an error is not a wrong answer.
    failed: int
    #: Chance level of this mean, which differs from the one over all questions if subjects differ in their numbers of
    #: choices; None if there is no chance level.
    chance: float | None

    def to_json(self) -> dict[str, Any]:
        """Return the content for summary.json."""
        chance = None if self.chance is None else round(self.chance, 6)
        bounds = self.interval.to_json()
        counts = {"subjects": self.subjects, "failed_subjects": self.failed}
        return {"value": round(self.value, 6), **bounds, **counts, "chance": chance}


def cluster_interval(subjects: Sequence[Share]) -> Interval | None:
    """Return the interval of the accuracy over all subjects if subjects are a sample too; None for fewer than two.

    Questions of one subject are correlated, so this is usually wider than Wilson's interval, which assumes independent
    questions; subjects are clusters just as contexts are (`Contexts.clustered`).
    """
    whole = share(sum(each.right for each in subjects), sum(each.of for each in subjects))
    if len(subjects) < 2 or whole is None:
        return None
    return Contexts(Counter((each.right, each.of) for each in subjects)).clustered(whole)


def macro(subjects: Sequence[Share]) -> float:
    """Return the macro average: the mean of the accuracies of one or more subjects, weighted equally.

    Its counterpart, the micro average, weights questions equally; that is the accuracy over all questions.
    """
    return sum(each.value for each in subjects) / len(subjects)


def macro_interval(subjects: Sequence[Share]) -> Interval:
    """Return the interval of `macro` with the questions as a sample and the subjects fixed.

    Only for subjects without common questions, as their shares must be independent. For G subjects with r_g of n_g
    right it uses n = n_g + 4/G and p = (r_g + 2/G) / n for each; it is the mean of all p ± z √(Σ p (1 - p) / (n - 1)) /
    G. Without the two right and two wrong answers that it adds in total, it would be a point if all answers are right;
    combined Wilson intervals have a coverage below 90 % if many subjects are nearly all right. Divided by n instead of
    n - 1, the coverage would be 85 % for 57 subjects of two questions each.

    How much an answer varies cannot be told by a single one. So subjects of one question count as one subject of all
    their questions, with the weight of all of them: their variance is rather overestimated then.

    Sources: R. M. Price and D. G. Bonett, "An improved confidence interval for a linear function of binomial
    proportions", Computational Statistics & Data Analysis 45 (2004); for small subjects (n - 1, and strata that are
    collapsed), W. G. Cochran, "Sampling Techniques" (1977), on stratified sampling.
    """
    mean, strata = macro(subjects), _strata(subjects)
    added = 2 / len(strata)
    middle = variance = 0.0
    for weight, right, of in strata:
        size = of + 2 * added
        p = (right + added) / size
        middle += weight * p
        variance += weight**2 * p * (1 - p) / (size - 1)
    reach = Z * math.sqrt(variance)
    return Interval(min(mean, max(0.0, middle - reach)), max(mean, min(1.0, middle + reach)))


def _strata(subjects: Sequence[Share]) -> list[tuple[float, int, int]]:
    """Return weight, right answers and questions of each subject; those of a single question are taken together."""
    single = [each for each in subjects if each.of == 1]
    apart = [(1 / len(subjects), each.right, each.of) for each in subjects if each.of > 1]
    if not single:
        return apart
    return [*apart, (len(single) / len(subjects), sum(each.right for each in single), len(single))]


def mean_interval(shares: Sequence[Share], by_contexts: Sequence[Interval | None]) -> Interval:
    """Return `macro_interval`, widened according to the shares' intervals clustered by context, if there are any.

    `macro_interval` alone assumes independent questions: for articles with five questions each, half of them easy and
    half of them hard, its coverage is 82 % instead of 95 %.
    """
    apart = macro_interval(shares)
    if not any(by_contexts):
        return apart
    each = [within or own.interval for own, within in zip(shares, by_contexts, strict=True)]
    wider = recovered_interval([own.value for own in shares], each)
    return Interval(min(apart.low, wider.low), max(apart.high, wider.high))


def recovered_interval(values: Sequence[float], intervals: Sequence[Interval]) -> Interval:
    """Return the interval of the mean of one or more independent `values`, recovered from their own intervals.

    The half-width of each interval on a side is used as its error there: that of the mean is √(Σ half-width²) / G. It
    does not require binomial proportions, as `macro_interval` does. Source: G. Y. Zou and A. Donner, "Construction of
    confidence limits about effect measures: a general approach", Statistics in Medicine 27 (2008).
    """
    count, mean = len(values), sum(values) / len(values)
    each = list(zip(values, intervals, strict=True))
    down = math.sqrt(sum((value - within.low) ** 2 for value, within in each)) / count
    up = math.sqrt(sum((within.high - value) ** 2 for value, within in each)) / count
    return Interval(mean - down, mean + up)
