"""Which messages a worker takes first."""

from __future__ import annotations

from enum import IntEnum

__all__ = ["Priority"]


class Priority(IntEnum):
    """The values are kombu's steps, where 0 is the most urgent."""

    HIGH = 0
    NORMAL = 6
    LOW = 9
