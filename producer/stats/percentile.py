"""Percentiles by nearest rank: each is a value that occurs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeVar

__all__ = ["percentile"]

Value = TypeVar("Value", int, float)


def percentile(ranked: Sequence[Value], share: float) -> Value:
    """Return the smallest of the values, which are sorted, that at least `share` of them do not exceed."""
    return ranked[max(0, math.ceil(share * len(ranked)) - 1)]
