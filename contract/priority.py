"""Message priorities."""

from __future__ import annotations

from enum import IntEnum

__all__ = ["Priority"]


class Priority(IntEnum):
    """Priority of a message. The values are kombu's priority steps, where 0 is the most urgent."""

    HIGH = 0
    NORMAL = 6
    LOW = 9
