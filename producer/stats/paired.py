"""Two runs over the same questions, A and B, question by question. Differences are B minus A."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, Self

from producer.stats.proportion import Interval, Share, Z, share

__all__ = ["ALPHA", "POWER", "Pairs", "holm"]

#: Two-sided level of the test, and the chance to find a difference that the detectable one is worked out for.
ALPHA = 0.05
POWER = 0.80


@dataclass(frozen=True, slots=True)
class Pairs:
    """The contingency table: how many questions both, one or neither of the runs got right; at least one in all."""

    both: int
    only_a: int
    only_b: int
    neither: int

    @classmethod
    def counted(cls, kinds: Counter[tuple[bool, bool]]) -> Self:
        """From (right in A, right in B) → questions."""
        return cls(kinds[True, True], kinds[True, False], kinds[False, True], kinds[False, False])

    @property
    def of(self) -> int:
        """All pairs."""
        return self.both + self.only_a + self.only_b + self.neither

    @property
    def discordant(self) -> int:
        """Pairs of which exactly one is right."""
        return self.only_a + self.only_b

    @property
    def accuracy_a(self) -> Share:
        """Share that A got right; unanswered counts as not right."""
        return self._share(self.both + self.only_a)

    @property
    def accuracy_b(self) -> Share:
        """Share that B got right; unanswered counts as not right."""
        return self._share(self.both + self.only_b)

    @property
    def difference(self) -> float:
        """Accuracy of B minus accuracy of A, which is (only B - only A) / of."""
        return (self.only_b - self.only_a) / self.of

    def interval(self) -> Interval:
        """Wald's interval of the difference, after adding a pair that only A got right and one that only B did.

        With p_a = (only A + 1) / (n + 2) and p_b likewise it is p_b - p_a ± z √((p_a + p_b - (p_b - p_a)²) / (n + 2)).
        Unlike what is drawn from the pairs themselves, it does not shrink to a point where no pair, or few, are
        discordant. Source: D. G. Bonett and R. M. Price, "Adjusted Wald confidence interval for a difference of
        binomial proportions based on paired data", Journal of Educational and Behavioral Statistics 37 (2012).
        """
        share_a, share_b = (self.only_a + 1) / (self.of + 2), (self.only_b + 1) / (self.of + 2)
        middle = share_b - share_a
        spread = Z * math.sqrt((share_a + share_b - middle**2) / (self.of + 2))
        return Interval(max(-1.0, middle - spread), min(1.0, middle + spread))

    def p_value(self) -> float:
        """McNemar's test with mid-p, two-sided: are A and B equally likely to be the one that is right?

        Under that assumption the smaller count k of the two is Binomial(discordant, 1/2), with distribution function F.
        Of what is as far off as k, mid-p counts half: F(k - 1) + F(k), where the exact test has 2 F(k). That one calls
        differences chance that the interval calls real; this one and the interval belong together, and disagree only
        where p is near 0.05. Sources: Q. McNemar, Psychometrika 12 (1947); M. W. Fagerland, S. Lydersen and
        P. Laake, "The McNemar test for binary matched-pairs data", BMC Medical Research Methodology 13 (2013), and of
        test and interval together "Recommended tests and confidence intervals for paired binomial proportions",
        Statistics in Medicine 33 (2014).
        """
        from scipy.special import bdtr  # late: most commands test nothing

        fewer = min(self.only_a, self.only_b)
        below = bdtr(fewer - 1, self.discordant, 0.5) if fewer else 0.0
        return float(below + bdtr(fewer, self.discordant, 0.5))

    def detectable(self) -> float | None:
        """The smallest true difference that so many pairs show with about 80 % power, at a level of 0.05.

        Of n pairs a share ψ is discordant; with z_α = Φ⁻¹(1 - 0.05/2) and z_β = Φ⁻¹(0.80) a difference δ needs
        n = (z_α √ψ + z_β √(ψ - δ²))² / δ² pairs (R. J. Connor, "Sample size for testing differences in proportions for
        the paired-sample design", Biometrics 43 (1987), page 209). Solved for δ:
        δ = √ψ (z_α √n + z_β √(n + z_β² - z_α²)) / (n + z_β²).

        None where no difference could be found: with fewer than four pairs, or with so few discordant ones that δ would
        be greater than ψ, which no difference is. ψ is the observed one, so this speaks of runs that disagree as often
        as these two. It is an approximation by the normal distribution; the test finds such a difference, from fifty
        pairs on, with a power of 80 to 81 %, and with more where few pairs are discordant.
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
        """All figures, for `compare --json`."""
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
    """`p_values` of tests that are looked at together, each as large as it has to be then, in their order.

    Whoever calls differences real whose adjusted value is below 0.05 is wrong about any of them once in twenty times at
    most. The k-th smallest of m is multiplied by m - k + 1, and is not below the one before it. Source: S. Holm, "A
    simple sequentially rejective multiple test procedure", Scandinavian Journal of Statistics 6 (1979).
    """
    adjusted = [1.0] * len(p_values)
    least = 0.0
    for rank, at in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        least = max(least, min(1.0, (len(p_values) - rank) * p_values[at]))
        adjusted[at] = least
    return adjusted
