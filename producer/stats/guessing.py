"""What guessing would score: the line that an accuracy is seen against."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from jinja2 import meta

from contract.prompts import environment
from contract.question import Question
from contract.spec import Mode, Prompt, RunSpec

__all__ = ["Guessing", "shows_choices"]


@lru_cache(maxsize=64)
def shows_choices(prompt: Prompt) -> bool:
    """Whether the model sees the choices, in some order, before it answers."""
    return "choices" in meta.find_undeclared_variables(environment().parse(prompt.text))


@dataclass(slots=True)
class Guessing:
    """Sums over the questions with a key of what a guess scores, one at a question and one at each of its rotations."""

    of: int = 0
    once: float = 0.0
    at_each: float = 0.0

    def add(self, question: Question) -> None:
        """Take one more into account; one without a key cannot be guessed."""
        if question.answer is None:
            return
        share = len(question.right) / len(question.choices)
        self.of += 1
        self.once += share
        self.at_each += share ** len(question.choices)

    def include(self, other: Guessing) -> None:
        """Take into account what `other` has."""
        self.of += other.of
        self.once += other.once
        self.at_each += other.at_each

    def chance(self, spec: RunSpec) -> float | None:
        """What guessing scores with `spec`: the mean of the right choices' share among all, over questions with a key.

        In a circular run a question has as many orders as choices, and each wants a guess of its own; where the prompt
        shows no choices all orders ask the same, and one guess is right in each. A free answer (`judge`) cannot be
        guessed so, as no choices are shown.
        """
        if not self.of or spec.mode is Mode.JUDGE:
            return None
        return round((self.at_each if spec.circular and shows_choices(spec.prompt) else self.once) / self.of, 6)
