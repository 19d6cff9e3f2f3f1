"""How often a judge agrees with the key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from contract.question import Question
from contract.verdict import Outcome, Verdict

__all__ = ["Agreement"]


@dataclass
class Agreement:
    """Of judged answers that also name a choice, those where the judge agrees with the key.

    In a `circular` run, of questions whose rotations were all graded alike: the verdict does not say how the rotation
    with this choice was graded.
    """

    agrees: int = 0
    of: int = 0

    def add(self, question: Question, verdict: Verdict) -> None:
        """Count one question with a key."""
        if verdict.choice and verdict.rotations_right in {0, verdict.rotations}:
            self.of += 1
            self.agrees += (verdict.choice in question.right) == (verdict.outcome is Outcome.CORRECT)

    def include(self, other: Agreement) -> None:
        """Add the counts of `other`."""
        self.agrees += other.agrees
        self.of += other.of

    def to_json(self) -> dict[str, Any]:
        """Return the content for summary.json."""
        return {"value": round(self.agrees / self.of, 6) if self.of else None, "agrees": self.agrees, "of": self.of}
