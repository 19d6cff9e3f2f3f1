"""Which choice an answer of our own JSON means, in a file and over HTTP: the types say it, row by row.

Text is a label or the text of a choice, a number counts from 0, and a list holds the right ones of several.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from contract.question import LABELS
from producer.readers.record import FieldTrouble, shown_value

__all__ = ["answer_label", "own_labels"]

_NUMBER = re.compile(r"[0-9]{1,9}")


def own_labels(answer: object, choices: Sequence[str]) -> tuple[str, ...]:
    """Labels of the choices that `answer` names, in order; empty without a key. Raises FieldTrouble."""
    each = answer if isinstance(answer, list) else [answer]
    return tuple(sorted({label for one in each if (label := answer_label(one, choices))}))


def answer_label(found: object, choices: Sequence[str]) -> str | None:
    """Our own JSON: label of the choice that `found` names; None for no key. Raises FieldTrouble."""
    labels = LABELS[: len(choices)]
    if found is None:
        return None
    if isinstance(found, int) and not isinstance(found, bool):
        return _by_own_index(found, labels)
    if not isinstance(found, str):
        raise _nothing(found, labels)
    word = found.strip()
    places = [label for label, text in zip(labels, choices, strict=True) if text.strip() == word]
    if not places and len(word) == 1 and word.upper() in labels:
        return word.upper()
    meanings = _meanings(word, places, labels)
    if not meanings:
        raise _nothing(found, labels)
    if len(set(meanings.values())) > 1:
        readings = " and ".join(f"{how} ({label})" for how, label in meanings.items())
        hint = "Write the right choice's label."
        raise FieldTrouble("answer", f"{found!r} is ambiguous: it is {readings}.", hint, kind="ambiguous")
    return next(iter(meanings.values()))


def _by_own_index(index: int, labels: str) -> str:
    if not 0 <= index < len(labels):
        hint = "Indices count from 0." if index == len(labels) else ""
        message = f"found index {index}, expected 0 to {len(labels) - 1}."
        raise FieldTrouble("answer", message, hint, kind="names no choice")
    return labels[index]


def _meanings(word: str, places: Sequence[str], labels: str) -> Mapping[str, str]:
    """Every way to read `word`, with the label that it leads to; `places` are those of the choices that read so."""
    meanings = {f"the text of choice {label}": label for label in places}
    return {"a label": word.upper(), **meanings} if len(word) == 1 and word.upper() in labels else meanings


def _nothing(found: object, labels: str) -> FieldTrouble:
    ways = f"a label ({labels[0]} to {labels[-1]}), a 0-based index, or the exact text of a choice"
    hint = f"Expected {ways}."
    if isinstance(found, str) and _NUMBER.fullmatch(found):
        hint += " An index is written without quotes."
    elif not isinstance(found, str) or not found.strip():
        hint += " Where no key is known, leave it out."
    return FieldTrouble("answer", f"{shown_value(found)} names no choice.", hint, kind="names no choice")
