"""Why questions failed: how many of each kind, and one of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from contract.question import Question
from contract.verdict import Verdict

__all__ = ["Failures"]


@dataclass
class Failures:
    """By type of error."""

    count: Counter[str] = field(default_factory=Counter)
    #: Id of the first such question, and the message.
    example: dict[str, tuple[str, str]] = field(default_factory=dict)

    @classmethod
    def of(cls, results: Iterable[tuple[Question, Verdict | None]]) -> Failures:
        """Those of all `results`."""
        found = cls()
        for question, verdict in results:
            if verdict is not None:
                found.add(question, verdict)
        return found

    def add(self, question: Question, verdict: Verdict) -> None:
        """Count one question, if it failed."""
        if verdict.error is not None:
            self.count[verdict.error.type] += 1
            self.example.setdefault(verdict.error.type, (question.id, verdict.error.message))

    def include(self, other: Failures) -> None:
        """Count what `other`, of the same run, has counted."""
        self.count.update(other.count)
        self.example = {**other.example, **self.example}
