"""What a check found: all is well, or a problem with its remedy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Self

from contract.errors import McqueueError

__all__ = ["Finding"]


@dataclass(frozen=True, slots=True)
class Finding:
    """Result of one check."""

    level: Literal["ok", "warning", "error"]
    what: str
    found: str
    remedy: str = ""

    @classmethod
    def of(cls, level: Literal["warning", "error"], what: str, trouble: McqueueError) -> Self:
        """Return what an error says, and its remedy."""
        return cls(level, what, trouble.said, trouble.hint)

    def __str__(self) -> str:
        return f"{self.found}. {self.remedy}".strip()
