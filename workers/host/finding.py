"""What a check found: all is well, or a problem with its remedy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["Finding"]


@dataclass(frozen=True, slots=True)
class Finding:
    """Result of one check."""

    level: Literal["ok", "warning", "error"]
    what: str
    found: str
    remedy: str = ""
