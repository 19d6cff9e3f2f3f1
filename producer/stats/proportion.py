"""A share of so many questions with its interval."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["CONFIDENCE", "Share", "share"]

#: Level of every interval.
CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Share:
    """`right` of `of`, with the 95 % Wilson interval from `low` to `high`."""

    right: int
    of: int
    low: float
    high: float

    @property
    def value(self) -> float:
        """The share, 0 to 1."""
        return self.right / self.of

    def to_json(self) -> dict[str, Any]:
        """For summary.json."""
        return {
            "value": round(self.value, 6),
            "low": round(self.low, 6),
            "high": round(self.high, 6),
            "right": self.right,
            "of": self.of,
        }


def share(right: int, of: int) -> Share | None:
    """`right` of `of` with its interval; None of nothing.

    With p = right/of, n = of and z = 1.96 the interval is (p + z²/2n ± z √(p(1-p)/n + z²/4n²)) / (1 + z²/n).
    Source: E. B. Wilson, "Probable inference, the law of succession, and statistical inference", JASA 22 (1927).
    """
    if not of:
        return None
    from scipy.stats import binomtest  # a second to import: only where a number is shown

    interval = binomtest(right, of).proportion_ci(CONFIDENCE, method="wilson")
    return Share(right, of, float(interval.low), float(interval.high))
