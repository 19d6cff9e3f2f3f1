"""Paired statistics of two runs, A and B, over the same questions. Differences are B minus A."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, Self

from producer.stats.proportion import Interval, Share, Z, share

__all__ = ["ALPHA", "POWER", "Pairs", "holm"]

#: Two-sided significance level of the test, and the power for which the minimum detectable difference is computed.
ALPHA = 0.05
POWER = 0.80


@dataclass(frozen=True, slots=True)
class Pairs:
    """Contingency table: how many questions both, one or neither of the runs got right; at least one in total."""

    both: int
    only_a: int
    only_b: int
    neither: int

    @classmethod
    def counted(cls, kinds: Counter[tuple[bool, bool]]) -> Self:
        """Create the table from (right in A, right in B) → number of questions."""
        return cls(kinds[True, True], kinds[True, False], kinds[False, True], kinds[False, False])

    @property
    def of(self) -> int:
        """Number of pairs."""
        return self.both + self.only_a + self.only_b + self.neither

    @property
    def discordant(self) -> int:
        """Number of pairs in which exactly one run is right."""
        return self.only_a + self.only_b

    @property
    def accuracy_a(self) -> Share:
        """Accuracy of A; unanswered counts as incorrect."""
        return self._share(self.both + self.only_a)

    @property
    def accuracy_b(self) -> Share:
        """Accuracy of B; unanswered counts as incorrect."""
        return self._share(self.both + self.only_b)

    @property
    def difference(self) -> float:
        """Accuracy of B minus accuracy of A, which is (only B - only A) / of."""
        return (self.only_b - self.only_a) / self.of

    def interval(self) -> Interval:
        """Return the adjusted Wald interval of the difference: one pair is added that only A got right, one only B.

        With p_a = (only A + 1) / (n + 2) and p_b likewise, it is p_b - p_a ± z √((p_a + p_b - (p_b - p_a)²) / (n + 2)).
        Unlike the unadjusted interval, it does not shrink to a point if no pairs, or few, are discordant. Source:
        D. G. Bonett and R. M. Price, "Adjusted Wald confidence interval for a difference of binomial proportions based
        on paired data", Journal of Educational and Behavioral Statistics 37 (2012).
        """
        return self.interval_at(self.of)

    def interval_at(self, of: float) -> Interval:
        """Return the interval of the same shares of `of` pairs, which need not be a whole number."""
        scale = of / self.of
        share_a, share_b = (self.only_a * scale + 1) / (of + 2), (self.only_b * scale + 1) / (of + 2)
        middle = share_b - share_a
        spread = Z * math.sqrt((share_a + share_b - middle**2) / (of + 2))
        return Interval(max(-1.0, middle - spread), min(1.0, middle + spread))

    @property
    def variance(self) -> float:
        """Variance of a single pair's difference: 1, 0 or -1."""
        return self.discordant / self.of - self.difference**2

    def p_value(self) -> float:
        """Return the two-sided p-value of McNemar's mid-p test; the null hypothesis is that A and B are equally good.

        Under the null hypothesis the smaller discordant count k is Binomial(discordant, 1/2), with distribution
        function F. Of counts as far from the middle as k, mid-p counts only half the probability: F(k - 1) + F(k),
        where the exact test has 2 F(k). For equal counts, only k itself is as far, so that half the probability of k
        is missing from 1; without discordant pairs, it is 1. The exact test is conservative and misses differences
        that the interval detects; the mid-p test agrees with the interval except if p is near 0.05. Sources: Q.
        McNemar, Psychometrika 12 (1947); M. W. Fagerland, S. Lydersen and P. Laake, "The McNemar test for binary
        matched-pairs data", BMC Medical Research Methodology 13 (2013), and on test and interval together "Recommended
        tests and confidence intervals for paired binomial proportions", Statistics in Medicine 33 (2014).
        """
        from scipy.special import bdtr  # imported late: most commands run no test

        fewer = min(self.only_a, self.only_b)
        below = bdtr(fewer - 1, self.discordant, 0.5) if fewer else 0.0
        up_to = bdtr(fewer, self.discordant, 0.5)
        counted_twice = (up_to - below) / 2 if fewer and self.only_a == self.only_b else 0.0
        return float(below + up_to - counted_twice)

    def detectable(self) -> float | None:
        """Return the smallest true difference that this number of pairs detects with about 80 % power at level 0.05.

        If a fraction ψ of n pairs is discordant, with z_α = Φ⁻¹(1 - 0.05/2) and z_β = Φ⁻¹(0.80), a difference δ needs
        n = (z_α √ψ + z_β √(ψ - δ²))² / δ² pairs (R. J. Connor, "Sample size for testing differences in proportions for
        the paired-sample design", Biometrics 43 (1987), page 209). Solved for δ:
        δ = √ψ (z_α √n + z_β √(n + z_β² - z_α²)) / (n + z_β²).

        None if no difference could be detected: with fewer than four pairs, or with so few discordant ones that δ would
        exceed ψ, which is impossible. ψ is the observed fraction, so the result applies to runs that disagree as often
        as these two. It uses the normal approximation; from fifty pairs on, the test detects such a difference with a
        power of 80 to 81 %, and with more if few pairs are discordant.
        """
        z_alpha, z_beta = NormalDist().inv_cdf(1 - ALPHA / 2), NormalDist().inv_cdf(POWER)
        n, discordance = self.of, self.discordant / self.of
        under_root = n + z_beta**2 - z_alpha**2
        if under_root < 0:
            return None
        factor = (z_alpha * math.sqrt(n) + z_beta * math.sqrt(under_root)) / (n + z_beta**2)
        delta = math.sqrt(discordance) * factor
        return delta if 0 < delta <= discordance else None

    def to_json(self) -> dict[str, Any]:
        """Return all figures for `compare --json`."""
        detectable = self.detectable()
        return {
            "pairs": self.of,
            "contingency": {"both": self.both, "only_a": self.only_a, "only_b": self.only_b, "neither": self.neither},
            "difference": {"value": round(self.difference, 6), **self.interval().to_json()},
            "mcnemar": {"p_value": self.p_value(), "test": "mid-p", "discordant": self.discordant},
            "minimum_detectable_effect": {
                "value": None if detectable is None else round(detectable, 6),
                "power": POWER,
                "alpha": ALPHA,
            },
        }

    def _share(self, right: int) -> Share:
        found = share(right, self.of)
        assert found is not None, "there is at least one pair"
        return found


def holm(p_values: Sequence[float]) -> list[float]:
    """Return `p_values` adjusted for multiple comparisons, in their order.

    Rejecting adjusted values below 0.05 keeps the probability of any false rejection at 5 % or less. The k-th smallest
    of m is multiplied by m - k + 1, and is never below the one before it. Source: S. Holm, "A simple sequentially
    rejective multiple test procedure", Scandinavian Journal of Statistics 6 (1979).
    """
    adjusted = [1.0] * len(p_values)
    least = 0.0
    for rank, at in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        least = max(least, min(1.0, (len(p_values) - rank) * p_values[at]))
        adjusted[at] = least
    return adjusted
