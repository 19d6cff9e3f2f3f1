"""What is said of several subjects together: their mean, and the interval that takes them for a sample."""

from __future__ import annotations

import math
from collections.abc import Sequence

from producer.stats.proportion import CONFIDENCE, Interval, Share, share

__all__ = ["cluster_interval", "macro"]


def cluster_interval(subjects: Sequence[Share]) -> Interval | None:
    """Interval of the accuracy over all subjects if the subjects, too, are a sample; None of fewer than two.

    Questions of one subject are right and wrong together, so this is mostly wider than Wilson's interval, which takes
    every question for a draw of its own. With r_g of n_g right in subject g, N questions, G subjects and the accuracy
    p, it is p ± t √(G/(G-1) Σ_g (r_g - p n_g)²) / N, t being Student's for G-1 degrees of freedom. On either
    side it reaches as far as Wilson's at least: that two subjects are of equal accuracy proves little.
    Sources: for evaluations E. Miller, "Adding error bars to evals", arXiv:2411.00640 (2024), section 2.2; for the
    factor and t with few clusters Cameron and Miller, "A practitioner's guide to cluster-robust inference", Journal of
    Human Resources 50 (2015), section VI.
    """
    count = len(subjects)
    whole = share(sum(each.right for each in subjects), sum(each.of for each in subjects))
    if count < 2 or whole is None:
        return None
    from scipy.special import stdtrit  # late: most commands show no interval

    apart = sum((each.right - whole.value * each.of) ** 2 for each in subjects)
    error = math.sqrt(count / (count - 1) * apart) / whole.of
    spread = float(stdtrit(count - 1, (1 + CONFIDENCE) / 2)) * error
    return Interval(min(whole.low, max(0.0, whole.value - spread)), max(whole.high, min(1.0, whole.value + spread)))


def macro(subjects: Sequence[Share]) -> float | None:
    """Mean of the subjects' accuracies, each subject weighing the same whatever its size; None of nothing.

    Its counterpart, micro accuracy, weighs each question the same: that is the accuracy over all questions.
    """
    return sum(each.value for each in subjects) / len(subjects) if subjects else None
