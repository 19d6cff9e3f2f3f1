"""Counts as people read them, in messages and results of both sides."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["broken_down", "number"]


def number(count: int, thing: str) -> str:
    """Return a count with its noun: `1 message`, `1,200 messages`."""
    return f"{count:,} {thing}{'' if count == 1 else 's'}"


def broken_down(total: int, thing: str, parts: Iterable[tuple[int, str]]) -> str:
    """Return a count and of what it consists, without empty parts: `3 questions: 2 only in A · 1 in both`."""
    return f"{number(total, thing)}: " + " · ".join(f"{count:,} {what}" for count, what in parts if count)
