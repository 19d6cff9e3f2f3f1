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
    """Sums over the questions with a key of what a guess scores, one at a question and one at each of its rotations."""

    of: int = 0
    once: float = 0.0
    at_each: float = 0.0
    #: Label → questions that it is right for.
    right: Counter[str] = field(default_factory=Counter)
    #: What choices there are, up to the second kind: whether all questions have the same.
    kinds: set[tuple[str, ...]] = field(default_factory=set)

    def add(self, question: Question) -> None:
        """Take one more into account; one without a key cannot be guessed."""
        if question.answer is None:
            return
        share = len(question.right) / len(question.choices)
        self.of += 1
        self.once += share
        self.at_each += share ** len(question.choices)
        for label in question.right:
            self.right[label] += 1
        if len(self.kinds) < 2:
            self.kinds.add(question.choices)

    def include(self, other: Guessing) -> None:
        """Take into account what `other` has."""
        self.of += other.of
        self.once += other.once
        self.at_each += other.at_each
        self.right.update(other.right)
        self.kinds |= other.kinds

    def chance(self, spec: RunSpec) -> float | None:
        """What guessing scores with `spec`: the mean of the right choices' share among all, over questions with a key.

        In a circular run a question has as many orders as choices, and each wants a guess of its own; where the prompt
        shows no choices all orders ask the same, and one guess is right in each. A free answer (`judge`) cannot be
        guessed so, as no choices are shown.
        """
        if not self.of or spec.mode is Mode.JUDGE:
            return None
        return round((self.at_each if spec.circular and shows_choices(spec.prompt) else self.once) / self.of, 6)

    def constant(self, spec: RunSpec) -> Constant | None:
        """What always giving the same answer scores at best: no knowledge, and more than chance where keys are uneven.

        The same position is given where the prompt shows the choices in the file's order; the same choice, as "yes",
        where all questions have the same ones, in whatever order. None where neither can be.
        """
        same = len(self.kinds) == 1
        placed = shows_choices(spec.prompt) and not (spec.shuffle or spec.circular)
        if not self.right or spec.mode is Mode.JUDGE or not (same or placed):
            return None
        label, count = max(sorted(self.right.items()), key=lambda each: each[1])
        (choices,) = self.kinds if same else (LABELS,)
        return Constant(choices[LABELS.index(label)], count / self.of)
