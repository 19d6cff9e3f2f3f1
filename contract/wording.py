"""Counts and shares as people read them, in messages and results of both sides."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["broken_down", "number", "percent"]


def number(count: int, thing: str) -> str:
    """Return a count with its noun: `1 message`, `1,200 messages`."""
    return f"{count:,} {thing}{'' if count == 1 else 's'}"


def broken_down(questions: Sequence[tuple[int, str]]) -> str:
    """Return their number and of what it consists, without empty parts: `3 questions: 2 only in A · 1 in both`."""
    total = sum(count for count, _ in questions)
    return f"{number(total, 'question')}: " + " · ".join(f"{count:,} {what}" for count, what in questions if count)


def percent(share: float, sign: str = "") -> str:
    """Return a share in percent: `78.7`. `sign` as in a format specification.

    It is rounded as where it is shown as 0.787: otherwise 63 of 80 would be 78.8.
    """
    return f"{100 * round(share, 3):{sign}.1f}"
