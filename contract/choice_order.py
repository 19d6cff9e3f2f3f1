"""Orders in which a question's choices are shown, and the mapping of labels back to the original order.

`shuffle`: one order per question, drawn from the run's seed. `circular`: every rotation once, the evaluation of Liu et
al., "MMBench: Is Your Multi-modal Model an All-around Player?" (2023), section 4.3: a model that prefers a position
cannot be right in all of them.
"""

from __future__ import annotations

import hashlib
import random
from typing import NamedTuple

from contract.question import LABELS, Question
from contract.spec import RunSpec

__all__ = ["Arrangement", "arrangements", "orders", "seed_for"]


#: Number of choices → their positions in the file's order.
_NATURAL = tuple(tuple(range(count)) for count in range(len(LABELS) + 1))


class Arrangement(NamedTuple):
    """A question with its choices in some order; `order[i]` is the original position of the choice shown at i."""

    question: Question
    order: tuple[int, ...]

    @property
    def as_enqueued(self) -> bool:
        """Whether the choices are in the file's order."""
        return self.order == _NATURAL[len(self.order)]

    def original(self, label: str) -> str:
        """Return the original label of the choice shown as `label`."""
        return LABELS[self.order[LABELS.index(label)]]


def arrangements(question: Question, spec: RunSpec) -> list[Arrangement]:
    """Return the question in every order in which `spec` asks it."""
    return [_arranged(question, order) for order in orders(question, spec)]


def orders(question: Question, spec: RunSpec) -> list[tuple[int, ...]]:
    """Return the orders alone, which tell where each choice was shown, without copies of the question."""
    natural = _NATURAL[len(question.choices)]
    if spec.circular:
        return [natural[i:] + natural[:i] for i in natural]
    if spec.shuffle:
        places = list(natural)
        random.Random(seed_for(question, spec, "order")).shuffle(places)
        return [tuple(places)]
    return [natural]


def _arranged(question: Question, places: tuple[int, ...]) -> Arrangement:
    if places == _NATURAL[len(places)]:
        return Arrangement(question, places)
    choices = tuple(question.choices[place] for place in places)
    right = sorted(LABELS[places.index(LABELS.index(label))] for label in question.right)
    key = {"answer": right[0], "also_right": tuple(right[1:])} if right else {}
    return Arrangement(question.model_copy(update={"choices": choices, **key}), places)


def seed_for(question: Question, spec: RunSpec, purpose: str) -> int:
    """Return a 31-bit seed that depends only on the run's seed, the question and the purpose.

    So a question is asked the same way whatever batch it is in.
    """
    digest = hashlib.sha256(f"{spec.seed}\x1f{purpose}\x1f{question.id}".encode()).digest()
    return int.from_bytes(digest[:4]) >> 1
