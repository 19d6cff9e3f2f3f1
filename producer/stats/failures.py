"""Counts of failed questions by type of error, with examples of each."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field

from contract.question import Question
from contract.verdict import Verdict

__all__ = ["Failures"]

#: Maximum number of examples of one type of error.
MOST_EXAMPLES = 3
#: What differs between two messages that give the same reason: counts of tokens, workers, addresses.
_NUMBERS = re.compile(r"\d+")
#: Characters by which messages are told apart: a message may quote the question.
_TOLD_APART_BY = 80


@dataclass
class Failures:
    """Failed questions by type of error."""

    count: Counter[str] = field(default_factory=Counter)
    #: Error type → reason → id of one such question, and its message. Some questions of a type may have failed for
    #: another reason than most, and would again after that is fixed.
    examples: dict[str, dict[str, tuple[str, str]]] = field(default_factory=dict)

    def add(self, question: Question, verdict: Verdict) -> None:
        """Count one question, if it failed."""
        if verdict.error is not None:
            self.count[verdict.error.type] += 1
            message = verdict.error.message
            self._keep(verdict.error.type, {_reason(message): (question.id, message)})

    def include(self, other: Failures) -> None:
        """Add the counts of `other`, which is from the same run."""
        self.count.update(other.count)
        for kind, found in other.examples.items():
            self._keep(kind, found)

    def _keep(self, kind: str, found: dict[str, tuple[str, str]]) -> None:
        kept = self.examples.setdefault(kind, {})
        for reason, example in found.items():
            if len(kept) < MOST_EXAMPLES:
                kept.setdefault(reason, example)


def _reason(message: str) -> str:
    return _NUMBERS.sub("0", message)[:_TOLD_APART_BY]
