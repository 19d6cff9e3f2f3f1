"""Texts for values that JSON lacks, of which Parquet files and datasets have some."""

from __future__ import annotations

from datetime import date, time, timedelta
from numbers import Number
from uuid import UUID

__all__ = ["in_text"]

#: What a text says in full.
_SAID_BY_TEXT = (Number, date, time, timedelta, UUID)


def in_text(value: object) -> str:
    """Return a text for a value that JSON lacks: short, and the same whenever the file is read."""
    if isinstance(value, bytes):
        return f"<{len(value):,} bytes>"
    # The text of any other object may contain its address in memory.
    return str(value) if isinstance(value, _SAID_BY_TEXT) else f"<{type(value).__name__}>"
