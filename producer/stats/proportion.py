"""A share of so many questions, or a mean of shares, with its interval."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

__all__ = ["CONFIDENCE", "Interval", "Mean", "Share", "Sum", "Z", "share"]

#: Level of every interval.
CONFIDENCE = 0.95
Z = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)


@dataclass(frozen=True, slots=True)
class Interval:
    """A 95 % interval."""

    low: float
    high: float

    def to_json(self) -> dict[str, Any]:
        """Its bounds."""
        return {"low": round(self.low, 6), "high": round(self.high, 6)}


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


@dataclass(frozen=True, slots=True)
class Mean:
    """Mean of `of` values between 0 and 1, with a 95 % interval from `low` to `high`.

    The interval is Wilson's with the mean in the share's place. Values between 0 and 1 vary at most as much as zeros
    and ones of the same mean do, so it is too wide rather than too narrow, and few or equal values do not shrink it to
    a point.
    """

    value: float
    of: int
    low: float
    high: float

    def to_json(self) -> dict[str, Any]:
        """For summary.json."""
        return {
            "value": round(self.value, 6),
            "low": round(self.low, 6),
            "high": round(self.high, 6),
            "of": self.of,
        }


@dataclass(slots=True)
class Sum:
    """Values between 0 and 1, added up one by one."""

    total: float = 0.0
    of: int = 0

    def add(self, value: float) -> None:
        """Take in one value."""
        self.total += value
        self.of += 1

    def include(self, other: Sum) -> None:
        """Take in what `other` has."""
        self.total += other.total
        self.of += other.of

    def mean(self) -> Mean | None:
        """Their mean with its interval; None of nothing."""
        if not self.of:
            return None
        value = self.total / self.of
        return Mean(value, self.of, *_wilson(value, self.of))


def share(right: int, of: int) -> Share | None:
    """`right` of `of` with its interval; None of nothing."""
    return Share(right, of, *_wilson(right / of, of)) if of else None


def _wilson(p: float, n: int) -> tuple[float, float]:
    """(p + z²/2n ± z √(p(1-p)/n + z²/4n²)) / (1 + z²/n), with z = 1.96.

    Source: E. B. Wilson, "Probable inference, the law of succession, and statistical inference", JASA 22 (1927).
    """
    z2 = Z * Z
    middle, scale = p + z2 / (2 * n), 1 + z2 / n
    spread = Z * math.sqrt(p * (1 - p) / n + z2 / (4 * n * n))
    return max(0.0, (middle - spread) / scale), min(1.0, (middle + spread) / scale)
