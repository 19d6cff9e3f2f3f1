"""Baselines for an accuracy: the chance level of guessing, and the best constant answer."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, NamedTuple

from contract.prompts import shows_choices
from contract.question import Question
from contract.spec import RunSpec

__all__ = ["Constant", "Guessing"]


class Constant(NamedTuple):
    """The constant answer with the highest accuracy, and that accuracy, from 0 to 1."""

    #: A label, standing for the position; or the choice itself, if all questions have the same choices, in any order.
    answer: str
    value: float

    def to_json(self) -> dict[str, Any]:
        """Return the content for summary.json."""
        return {"answer": self.answer, "value": round(self.value, 6)}


@dataclass(slots=True)
class Guessing:
    """Counts of questions with a key by the position of their right choices, from which the baselines follow."""

    #: (number of choices, label of the right one, labels of further right ones) → number of questions.
    counts: Counter[tuple[int, str, tuple[str, ...]]] = field(default_factory=Counter)
    #: Up to two different sets of choices, sorted, to tell whether all questions have the same ones.
    choice_sets: set[tuple[str, ...]] = field(default_factory=set)
    #: Text of a choice → number of questions for which it is right; meaningless if not all have the same choices.
    right_texts: Counter[str] = field(default_factory=Counter)

    def add(self, question: Question) -> None:
        """Count one question; questions without a key are ignored."""
        if question.answer is None:
            return
        self.counts[len(question.choices), question.answer, question.also_right] += 1
        if len(self.choice_sets) < 2:
            self.choice_sets.add(tuple(sorted(question.choices)))
            self.right_texts.update({question.choice_text(label) for label in question.right})

    def include(self, other: Guessing) -> None:
        """Add the counts of `other`."""
        self.counts.update(other.counts)
        self.choice_sets |= other.choice_sets
        self.right_texts.update(other.right_texts)

    @property
    def of(self) -> int:
        """Number of questions with a key."""
        return self.counts.total()

    @property
    def answers(self) -> Counter[str]:
        """Label → number of questions for which it is right."""
        found: Counter[str] = Counter()
        for (_, answer, also_right), count in self.counts.items():
            found.update(dict.fromkeys((answer, *also_right), count))
        return found

    @property
    def common_choices(self) -> tuple[str, ...]:
        """The choices if all questions have the same ones, such as "yes" and "no", in any order; else empty."""
        return next(iter(self.choice_sets)) if len(self.choice_sets) == 1 else ()

    def chance(self, spec: RunSpec) -> float | None:
        """Return the chance level under `spec`: the mean fraction of right choices, over questions with a key.

        In a circular run a question has as many orders as choices, and each needs its own guess; if the prompt shows no
        choices, all orders ask the same, and one guess decides them all. None for free answers (`judge`), which cannot
        be guessed this way, as no choices are shown.
        """
        if not self.counts or not spec.mode.chooses:
            return None
        every_order = spec.circular and shows_choices(spec.prompt)
        scored = sum(
            count * ((1 + len(also_right)) / choices) ** (choices if every_order else 1)
            for (choices, _, also_right), count in self.counts.items()
        )
        return round(scored / self.of, 6)

    def constant(self, spec: RunSpec) -> Constant | None:
        """Return the best constant answer: it needs no knowledge, but exceeds chance if keys are unevenly distributed.

        It is a position if the prompt shows the choices in the file's order, or a choice, such as "yes", if all
        questions have the same ones, in any order; if both apply, the better one. None if neither does.
        """
        if not spec.mode.chooses:
            return None
        placed = shows_choices(spec.prompt) and not spec.reorders
        texts = sorted(self.right_texts.items()) if self.common_choices else []
        places = sorted(self.answers.items()) if placed else []
        if not (texts or places):
            return None
        answer, count = max([*texts, *places], key=itemgetter(1))
        return Constant(answer, count / self.of)
