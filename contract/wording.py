"""Counts as people read them, in messages and results of both sides."""

from __future__ import annotations

__all__ = ["number"]


def number(count: int, thing: str) -> str:
    """Return a count with its noun: `1 message`, `1,200 messages`."""
    return f"{count:,} {thing}{'' if count == 1 else 's'}"
