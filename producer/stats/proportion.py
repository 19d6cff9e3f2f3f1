"""Proportions, and means of values between 0 and 1, with their confidence intervals."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, Protocol

__all__ = ["CONFIDENCE", "Figure", "Interval", "Mean", "Share", "Sum", "Z", "share"]

#: Confidence level of all intervals.
CONFIDENCE = 0.95
Z = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)


@dataclass(frozen=True, slots=True)
class Interval:
    """A 95 % interval."""

    low: float
    high: float

    def against(self, level: float) -> str:
        """Return whether the figure is `above` or `below` a level, or `not distinguishable from` it."""
        return "above" if self.low > level else "below" if self.high < level else "not distinguishable from"

    def to_json(self) -> dict[str, Any]:
        """Return the bounds."""
        return {"low": round(self.low, 6), "high": round(self.high, 6)}


class Figure(Protocol):
    """A figure over questions, whose interval is known for any number of questions."""

    @property
    def variance(self) -> float:
        """Variance of the value of a single question."""

    def interval_at(self, of: float) -> Interval:
        """Return the interval that the same figure would have over `of` independent questions."""


@dataclass(frozen=True, slots=True)
class Share:
    """`right` of `of`, with the 95 % Wilson interval from `low` to `high`."""

    right: int
    of: int
    low: float
    high: float

    @property
    def value(self) -> float:
        """The share, from 0 to 1."""
        return self.right / self.of

    @property
    def interval(self) -> Interval:
        """The interval alone."""
        return Interval(self.low, self.high)

    def to_json(self) -> dict[str, Any]:
        """Return the content for summary.json."""
        return {"value": round(self.value, 6), **self.interval.to_json(), "right": self.right, "of": self.of}

    @property
    def variance(self) -> float:
        """Variance of a single question's 1 or 0."""
        return self.value * (1 - self.value)

    def interval_at(self, of: float) -> Interval:
        """Return the interval of the same share of `of` questions, which need not be a whole number."""
        return Interval(*_wilson(self.value, of))


@dataclass(frozen=True, slots=True)
class Mean:
    """Mean of `of` values between 0 and 1, with a 95 % interval from `low` to `high`.

    The interval is Wilson's, with the mean in place of the proportion. Values between 0 and 1 vary at most as much as
    zeros and ones with the same mean, so the interval is conservative, and does not shrink to a point for few or equal
    values.
    """

    value: float
    of: int
    low: float
    high: float

    def to_json(self) -> dict[str, Any]:
        """Return the content for summary.json."""
        return {"value": round(self.value, 6), **Interval(self.low, self.high).to_json(), "of": self.of}


@dataclass(slots=True)
class Sum:
    """Running sum of values between 0 and 1."""

    total: float = 0.0
    of: int = 0

    def add(self, value: float) -> None:
        """Add one value."""
        self.total += value
        self.of += 1

    def include(self, other: Sum) -> None:
        """Add the values of `other`."""
        self.total += other.total
        self.of += other.of

    def mean(self) -> Mean | None:
        """Return the mean with its interval; None without values."""
        if not self.of:
            return None
        value = self.total / self.of
        return Mean(value, self.of, *_wilson(value, self.of))


def share(right: int, of: int) -> Share | None:
    """Return `right` of `of` with its interval; None if `of` is 0."""
    return Share(right, of, *_wilson(right / of, of)) if of else None


def _wilson(p: float, n: float) -> tuple[float, float]:
    """Return the Wilson interval (p + z²/2n ± z √(p(1-p)/n + z²/4n²)) / (1 + z²/n), with z = 1.96.

    Source: E. B. Wilson, "Probable inference, the law of succession, and statistical inference", JASA 22 (1927).
    """
    z2 = Z * Z
    middle, scale = p + z2 / (2 * n), 1 + z2 / n
    spread = Z * math.sqrt(p * (1 - p) / n + z2 / (4 * n * n))
    # The bounds enclose `p`: of 0 or 1 they are so, but for rounding errors, by which all right would not hold 1.
    return max(0.0, min(p, (middle - spread) / scale)), min(1.0, max(p, (middle + spread) / scale))
