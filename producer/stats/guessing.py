"""What guessing would score: the line that an accuracy is seen against."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
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
    """Questions with a key, counted by what a guess at them scores: one count each, as every question comes by."""

    #: Right choices, all choices → questions.
    counts: Counter[tuple[int, int]] = field(default_factory=Counter)

    def add(self, question: Question) -> None:
        """Take one more into account; one without a key cannot be guessed."""
        if question.answer is not None:
            self.counts[1 + len(question.also_right), len(question.choices)] += 1

    def include(self, other: Guessing) -> None:
        """Take into account what `other` has."""
        self.counts.update(other.counts)

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
            count * (right / choices) ** (choices if every_order else 1)
            for (right, choices), count in self.counts.items()
        )
        return round(scored / self.counts.total(), 6)
