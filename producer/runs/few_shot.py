"""Whether every question has as many examples as its run asks for: it is never shown to itself."""

from __future__ import annotations

from collections import Counter

from contract.errors import RunConfigError
from contract.prompts import examples
from contract.question import Question, asked_in
from contract.spec import FewShot, Selection

__all__ = ["FewShotCheck"]

#: Subjects that are named in the message.
MOST_NAMED = 5


class FewShotCheck:
    """Looks at each question, and remembers those that would be shown too few examples."""

    def __init__(self, few_shot: FewShot | None) -> None:
        self._few_shot = few_shot
        #: Subject → its questions with too few.
        self._lacking: Counter[str | None] = Counter()

    @property
    def needed(self) -> bool:
        """Whether the run shows examples at all."""
        return self._few_shot is not None

    def add(self, question: Question) -> None:
        """Take the next question into account."""
        if self._few_shot is None:
            return
        by_subject = self._few_shot.selection is Selection.SUBJECT
        # Of the whole pool only a question that is in it itself can have too few.
        itself = asked_in(question.question) in self._few_shot.places
        if (by_subject or itself) and self._lacks(question, self._few_shot):
            self._lacking[question.subject] += 1

    def _lacks(self, question: Question, few_shot: FewShot) -> bool:
        return len(examples(question, few_shot, seed=0)) < few_shot.k

    def refuse(self) -> None:
        """Raise RunConfigError if a question had too few."""
        if self._few_shot is None or not self._lacking:
            return
        few_shot = self._few_shot
        if few_shot.selection is not Selection.SUBJECT:
            raise RunConfigError(
                f"few_shot: {self._lacking.total():,} of the questions stand among the {len(few_shot.pool):,} examples,"
                f" and have fewer than {few_shot.k} others.",
                hint="An example is never shown to itself: add examples to few_shot.file, or lower few_shot.k.",
            )
        named = [
            f"{subject or 'without a subject'} ({count:,} asked, {len(few_shot.by_subject.get(subject, ()))} examples)"
            for subject, count in self._lacking.most_common(MOST_NAMED)
        ]
        if len(self._lacking) > len(named):
            named.append(f"and {len(self._lacking) - len(named):,} subjects more")
        raise RunConfigError(
            f"few_shot: fewer than {few_shot.k} examples of their own subject for questions of"
            f" {', '.join(named)}; an example is never shown to itself.",
            hint="Add examples to few_shot.file, lower few_shot.k, or ask with few_shot.selection: fixed.",
        )
