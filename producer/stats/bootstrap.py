"""Intervals by drawing again, and what is said of several subjects together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from producer.stats.proportion import CONFIDENCE, Share

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["RESAMPLES", "SEED", "Interval", "cluster_interval", "macro", "percentiles"]

RESAMPLES = 10_000
#: The same data give the same interval.
SEED = 0
#: Subjects drawn in one go: a few megabytes, however many there are.
DRAWS_AT_ONCE = 200_000


@dataclass(frozen=True, slots=True)
class Interval:
    """A 95 % interval."""

    low: float
    high: float

    def to_json(self) -> dict[str, Any]:
        """Its bounds, and how to draw them again."""
        return {"low": round(self.low, 6), "high": round(self.high, 6), "resamples": RESAMPLES, "seed": SEED}


def percentiles(drawn: NDArray[Any]) -> Interval:
    """What lies between the 2.5th and the 97.5th percentile of the figure over all resamples.

    Source: Efron and Tibshirani, "An introduction to the bootstrap" (1993), chapter 13.
    """
    import numpy as np  # late, like scipy: most commands show no interval

    tail = 50 * (1 - CONFIDENCE)
    low, high = np.percentile(drawn, [tail, 100 - tail])
    return Interval(float(low), float(high))


def cluster_interval(subjects: Sequence[Share]) -> Interval | None:
    """Interval of the accuracy over all subjects if the subjects, too, are a sample; None of fewer than two.

    A resample draws as many subjects as there are, with replacement, each with all of its questions, and its figure is
    Σ right / Σ of. Questions of one subject are right and wrong together, so this is mostly wider than Wilson's
    interval, which takes every question for a draw of its own. Sources: Field and Welsh, "Bootstrapping clustered
    data", JRSS B 69 (2007); for evaluations E. Miller, "Adding error bars to evals", arXiv:2411.00640 (2024),
    section 2.2. With fewer than about thirty subjects it is too narrow (Cameron, Gelbach and Miller, Review of
    Economics and Statistics 90, 2008).
    """
    if len(subjects) < 2:
        return None
    import numpy as np

    generator = np.random.default_rng(SEED)
    right = np.array([each.right for each in subjects])
    of = np.array([each.of for each in subjects])
    drawn = np.empty(RESAMPLES)
    at_once = max(1, DRAWS_AT_ONCE // len(subjects))
    for at in range(0, RESAMPLES, at_once):
        chosen = generator.integers(len(subjects), size=(min(at_once, RESAMPLES - at), len(subjects)))
        drawn[at : at + at_once] = right[chosen].sum(axis=1) / of[chosen].sum(axis=1)
    return percentiles(drawn)


def macro(subjects: Sequence[Share]) -> float | None:
    """Mean of the subjects' accuracies, each subject weighing the same whatever its size; None of nothing.

    Its counterpart, micro accuracy, weighs each question the same: that is the accuracy over all questions.
    """
    return sum(each.value for each in subjects) / len(subjects) if subjects else None
