"""Questions whose choices speak of each other, where a run shows them in other orders than their file does."""

from __future__ import annotations

import re

from contract.question import Question
from contract.spec import RunSpec
from producer.output import number
from producer.stats.guessing import shows_choices

__all__ = ["ChoiceReferences", "speaks_of_others"]

_WORD = re.compile(r"\w+")
#: What may stand around the letters of "both A and B", "(a) & (c) only", "neither A nor B is correct".
_AROUND = re.compile(
    r"both|neither|either|all|only|and|or|nor|not|of|the|(?:option|choice|answer)s?|are|is"
    r"|correct|right|true|false|wrong|incorrect"
)
#: A choice that combines others is short.
_LONGEST = 60
_ABOVE = re.compile(r"(?:all|none|any|both|neither|either|two|some|one)\b(?: \w+){0,3} above[.!]?", re.IGNORECASE)


class ChoiceReferences:
    """Looks at each question of a run, and remembers how many mean something else when their choices are moved."""

    def __init__(self, spec: RunSpec) -> None:
        #: Whether the run moves choices at all.
        self.needed = (spec.shuffle or spec.circular) and shows_choices(spec.prompt)
        self._moved = 0
        self._example = ""

    def add(self, question: Question) -> None:
        """Take the next question into account."""
        if self.needed and (choice := speaks_of_others(question)):
            self._moved += 1
            self._example = self._example or choice

    def warnings(self) -> list[str]:
        """What to warn of, if anything."""
        if not self._moved:
            return []
        return [
            f"warning: {number(self._moved, 'question')} with a choice that names others by letter or place, as"
            f" {self._example!r}: in another order it says something else, and the key may be wrong there."
        ]


def speaks_of_others(question: Question) -> str:
    """The first choice that names others by their letters ("both A and B") or place ("none of the above"), or nothing.

    Where what the letters name are such combinations themselves, they speak of statements in the question.
    """
    choices = dict(zip(question.labels, question.choices, strict=True))
    combined = {label: _letters(text, question.labels) for label, text in choices.items()}
    for label, text in choices.items():
        named = combined[label]
        if _ABOVE.fullmatch(text.strip()) or (named and not any(combined[each] for each in named)):
            return text.strip()
    return ""


def _letters(text: str, labels: tuple[str, ...]) -> frozenset[str]:
    """The labels that `text` combines; none where it says anything else."""
    words = _WORD.findall(text.lower()) if len(text) <= _LONGEST else []
    named = frozenset(word.upper() for word in words if word.upper() in labels)
    around = (word for word in words if word.upper() not in labels)
    return named if len(named) > 1 and all(map(_AROUND.fullmatch, around)) else frozenset()
