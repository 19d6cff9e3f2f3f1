"""Counts of failed questions by type of error, with an example of each."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from contract.question import Question
from contract.verdict import Verdict

__all__ = ["Failures"]


@dataclass
class Failures:
    """Failed questions by type of error."""

    count: Counter[str] = field(default_factory=Counter)
    #: Error type → id of one such question, and its message.
    example: dict[str, tuple[str, str]] = field(default_factory=dict)

    def add(self, question: Question, verdict: Verdict) -> None:
        """Count one question, if it failed."""
        if verdict.error is not None:
            self.count[verdict.error.type] += 1
            self.example.setdefault(verdict.error.type, (question.id, verdict.error.message))

    def include(self, other: Failures) -> None:
        """Add the counts of `other`, which is from the same run."""
        self.count.update(other.count)
        self.example = {**other.example, **self.example}
