"""Detects choices that refer to other choices, in runs that show the choices in another order than the file."""

from __future__ import annotations

import re

from contract.prompts import shows_choices
from contract.question import Question
from contract.spec import RunSpec
from contract.wording import number

__all__ = ["ChoiceReferences", "refers_to_others"]

_WORD = re.compile(r"\w+")
#: Words allowed around the letters, as in "both A and B", "(a) & (c) only", "neither A nor B is correct".
_AROUND = re.compile(
    r"both|neither|either|all|only|and|or|nor|not|of|the|(?:option|choice|answer)s?|are|is"
    r"|correct|right|true|false|wrong|incorrect"
)
#: Longest text, in characters, of a choice that combines others.
_LONGEST = 60
_ABOVE = re.compile(
    r"(?:(?:can|could|may|might) be )?(?:all|none|any|both|neither|either|two|some|one)\b(?: \w+){0,3} above\b"
    r"(?:[.!;,]|$| (?:is|are|were|can|could|may|would|will|have|has|apply|applies|options?|choices?|answers?"
    r"|statements?|alternatives?|responses?)\b)",
    re.IGNORECASE,
)


class ChoiceReferences:
    """Counts the questions of a run whose meaning changes when their choices are reordered."""

    def __init__(self, spec: RunSpec) -> None:
        #: Whether the run reorders choices at all.
        self.needed = spec.reorders and shows_choices(spec.prompt)
        self._moved = 0
        self._example = ""

    def add(self, question: Question) -> None:
        """Check the next question."""
        if self.needed and (choice := refers_to_others(question)):
            self._moved += 1
            self._example = self._example or choice

    def warnings(self) -> list[str]:
        """Return the warnings, if any."""
        if not self._moved:
            return []
        return [
            f"warning: {number(self._moved, 'question')} with a choice that refers to others by letter or position,"
            f" such as {self._example!r}: in another order its meaning changes, and the key may be wrong."
        ]


def refers_to_others(question: Question) -> str:
    """Return the first choice that refers to others by letter ("both A and B") or position ("none of the above").

    Return an empty string if there is none. If the letters name choices that are such combinations themselves, they
    refer to statements in the question instead.
    """
    choices = dict(zip(question.labels, question.choices, strict=True))
    combined = {label: _letters(text, question.labels) for label, text in choices.items()}
    for label, text in choices.items():
        named = combined[label]
        by_position = len(text) <= _LONGEST and _ABOVE.match(text.strip())
        if by_position or (named and not any(combined[each] for each in named)):
            return text.strip()
    return ""


def _letters(text: str, labels: tuple[str, ...]) -> frozenset[str]:
    """Return the labels that `text` combines; none if it contains anything else."""
    words = _WORD.findall(text.lower()) if len(text) <= _LONGEST else []
    named = frozenset(word.upper() for word in words if word.upper() in labels)
    around = (word for word in words if word.upper() not in labels)
    return named if len(named) > 1 and all(map(_AROUND.fullmatch, around)) else frozenset()
