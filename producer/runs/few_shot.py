"""Checks that every question has enough few-shot examples; a question is never its own example."""

from __future__ import annotations

from collections import Counter

from contract.errors import RunConfigError
from contract.prompts import examples
from contract.question import Question, identity
from contract.spec import ExampleSelection, FewShot
from contract.wording import number

__all__ = ["FewShotCheck"]

#: Largest number of subjects named in the message.
MOST_NAMED = 5


class FewShotCheck:
    """Counts the questions that would be shown too few examples."""

    def __init__(self, few_shot: FewShot | None) -> None:
        self._few_shot = few_shot
        #: Subject → number of its questions with too few examples.
        self._lacking: Counter[str | None] = Counter()

    @property
    def needed(self) -> bool:
        """Whether the run uses examples at all."""
        return self._few_shot is not None

    def add(self, question: Question) -> None:
        """Check the next question."""
        if self._few_shot is None:
            return
        by_subject = self._few_shot.selection is ExampleSelection.SUBJECT
        # Unless examples are selected by subject, only a question that is itself an example can have too few.
        itself = identity(question) in self._few_shot.places
        if (by_subject or itself) and len(examples(question, self._few_shot, seed=0)) < self._few_shot.k:
            self._lacking[question.subject] += 1

    def refuse(self) -> None:
        """Raise RunConfigError if any question has too few examples."""
        if self._few_shot is None or not self._lacking:
            return
        few_shot = self._few_shot
        if few_shot.selection is not ExampleSelection.SUBJECT:
            raise RunConfigError(
                f"few_shot: {number(self._lacking.total(), 'question')} among the"
                f" {number(len(few_shot.pool), 'example')}, each left with fewer than {number(few_shot.k, 'other')}.",
                hint="A question is never its own example: add examples to few_shot.file, or lower few_shot.k.",
            )
        named = [
            f"{subject or 'without a subject'} ({count:,} asked,"
            f" {number(len(few_shot.by_subject.get(subject, ())), 'example')})"
            for subject, count in self._lacking.most_common(MOST_NAMED)
        ]
        if len(self._lacking) > len(named):
            named.append(f"and {number(len(self._lacking) - len(named), 'more subject')}")
        raise RunConfigError(
            f"few_shot: fewer than {number(few_shot.k, 'example')} of the same subject for questions of"
            f" {', '.join(named)}; a question is never its own example.",
            hint="Add examples to few_shot.file, lower few_shot.k, or set few_shot.selection: fixed.",
        )
