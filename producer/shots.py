"""Whether every question has as many examples as its run asks for, where they are those of its own subject."""

from __future__ import annotations

from collections import Counter

from contract.errors import RunConfigError
from contract.prompts import examples
from contract.question import Question
from contract.spec import FewShot, Selection

__all__ = ["Shots"]

#: Subjects that are named in the message.
MOST_NAMED = 5


class Shots:
    """Looks at each question, and remembers the subjects that have too few examples."""

    def __init__(self, few_shot: FewShot | None) -> None:
        # The other selections draw from a pool that is large enough for any question.
        self._few_shot = few_shot if few_shot and few_shot.selection is Selection.SUBJECT else None
        self._lacking: Counter[str] = Counter()

    def add(self, question: Question) -> None:
        """Take the next question into account."""
        if self._few_shot and len(examples(question, self._few_shot, seed=0)) < self._few_shot.k:
            self._lacking[question.subject or ""] += 1

    def refuse(self) -> None:
        """Raise RunConfigError if a question had too few."""
        if not self._few_shot or not self._lacking:
            return
        there = self._few_shot.by_subject
        named = [
            f"{subject or 'without a subject'} ({count:,} asked, {len(there.get(subject or None, ()))} examples)"
            for subject, count in self._lacking.most_common(MOST_NAMED)
        ]
        if len(self._lacking) > len(named):
            named.append(f"and {len(self._lacking) - len(named):,} subjects more")
        raise RunConfigError(
            f"few_shot: fewer than {self._few_shot.k} examples of their own subject for questions of"
            f" {', '.join(named)}; an example is never shown to itself.",
            hint="Add examples to few_shot.file, lower few_shot.k, or ask with few_shot.selection: fixed.",
        )
