"""What a model that knows nothing would score, guessing or always saying the same: what an accuracy is seen against."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

from jinja2 import meta

from contract.prompts import environment
from contract.question import LABELS, Question
from contract.spec import Mode, Prompt, RunSpec

__all__ = ["Constant", "Guessing", "shows_choices"]


@lru_cache(maxsize=64)
def shows_choices(prompt: Prompt) -> bool:
    """Whether the model sees the choices, in some order, before it answers."""
    return "choices" in meta.find_undeclared_variables(environment().parse(prompt.text))


class Constant(NamedTuple):
    """The answer that scores most of those that can be given to every question, and what it scores, 0 to 1."""

    #: A label, for the position; or the choice itself, where all questions have the same ones.
    answer: str
    value: float

    def to_json(self) -> dict[str, Any]:
        """For summary.json."""
        return {"answer": self.answer, "value": round(self.value, 6)}


@dataclass(slots=True)
class Guessing:
    """Questions with a key, by where their right choices stand, and what follows for a model that knows nothing."""

    #: Number of choices, label of the right one, those of further ones → questions: one count each, as all come by.
    counts: Counter[tuple[int, str, tuple[str, ...]]] = field(default_factory=Counter)
    #: What choices there are, up to the second kind: whether all questions have the same.
    kinds: set[tuple[str, ...]] = field(default_factory=set)

    def add(self, question: Question) -> None:
        """Take one more into account; one without a key cannot be guessed."""
        if question.answer is None:
            return
        self.counts[len(question.choices), question.answer, question.also_right] += 1
        if len(self.kinds) < 2:
            self.kinds.add(question.choices)

    def include(self, other: Guessing) -> None:
        """Take into account what `other` has."""
        self.counts.update(other.counts)
        self.kinds |= other.kinds

    @property
    def of(self) -> int:
        """Questions with a key."""
        return self.counts.total()

    @property
    def answers(self) -> Counter[str]:
        """Label → questions that it is right for."""
        found: Counter[str] = Counter()
        for (_, answer, also_right), count in self.counts.items():
            found.update(dict.fromkeys((answer, *also_right), count))
        return found

    @property
    def same(self) -> tuple[str, ...] | None:
        """The choices, where all questions have the same, as "yes" and "no"."""
        return next(iter(self.kinds)) if len(self.kinds) == 1 else None

    def chance(self, spec: RunSpec) -> float | None:
        """What guessing scores with `spec`: the mean of the right choices' share among all, over questions with a key.

        In a circular run a question has as many orders as choices, and each wants a guess of its own; where the prompt
        shows no choices all orders ask the same, and one guess is right in each. A free answer (`judge`) cannot be
        guessed so, as no choices are shown.
        """
        if not self.counts or spec.mode is Mode.JUDGE:
            return None
        every_order = spec.circular and shows_choices(spec.prompt)
        scored = sum(
            count * ((1 + len(also_right)) / choices) ** (choices if every_order else 1)
            for (choices, _, also_right), count in self.counts.items()
        )
        return round(scored / self.of, 6)

    def constant(self, spec: RunSpec) -> Constant | None:
        """What always giving the same answer scores at best: no knowledge, and more than chance where keys are uneven.

        The same position is given where the prompt shows the choices in the file's order; the same choice, as "yes",
        where all questions have the same ones, in whatever order. None where neither can be.
        """
        placed = shows_choices(spec.prompt) and not (spec.shuffle or spec.circular)
        if not self.counts or spec.mode is Mode.JUDGE or not (self.same or placed):
            return None
        label, count = max(sorted(self.answers.items()), key=lambda each: each[1])
        return Constant((self.same or LABELS)[LABELS.index(label)], count / self.of)
