"""Which choice a file's `answer` means.

| found                      | JSON                              | CSV, where everything is text                      |
|----------------------------|-----------------------------------|----------------------------------------------------|
| nothing, null, empty cell  | no key                            | no key                                             |
| a number                   | 0-based index                     | 0-based index, or the text of a choice             |
| text                       | a label (`B`, `b`), or the text of a choice                                          |

Where two readings name different choices (`A` is a label and the text of choice C; `2` is an index and the text of
choice A), nobody can know which was meant: the row is refused, and the label of the right choice settles it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from contract.question import LABELS
from producer.readers.record import FieldTrouble, shown_value

__all__ = ["answer_label"]

_NUMBER = re.compile(r"[0-9]{1,9}")


def answer_label(found: object, choices: Sequence[str], *, untyped: bool) -> str | None:
    """Label of the choice that `found` names; None for no key. Raises FieldTrouble.

    `untyped`: the format knows text only, so that digits may be an index.
    """
    labels = LABELS[: len(choices)]
    if found is None or (untyped and found == ""):
        return None
    if isinstance(found, int) and not isinstance(found, bool):
        return _by_index(found, labels)
    if not isinstance(found, str):
        raise _nothing(found, labels, untyped=untyped)
    meanings = _meanings(found.strip(), choices, labels, untyped=untyped)
    if not meanings:
        raise _nothing(found, labels, untyped=untyped)
    if len(set(meanings.values())) > 1:
        readings = " and ".join(f"{how} ({label})" for how, label in meanings.items())
        raise FieldTrouble("answer", f"{found!r} is ambiguous: it is {readings}.", "Write the right choice's label.")
    return next(iter(meanings.values()))


def _by_index(index: int, labels: str) -> str:
    if not 0 <= index < len(labels):
        hint = "Indices count from 0." if index == len(labels) else ""
        raise FieldTrouble("answer", f"found index {index}, expected 0 to {len(labels) - 1}.", hint)
    return labels[index]


def _meanings(word: str, choices: Sequence[str], labels: str, *, untyped: bool) -> dict[str, str]:
    """Every way to read `word`, with the label that it leads to."""
    meanings: dict[str, str] = {}
    if len(word) == 1 and word.upper() in labels:
        meanings["a label"] = word.upper()
    for label, text in zip(labels, choices, strict=True):
        if text.strip() == word:
            meanings[f"the text of choice {label}"] = label
    if untyped and _NUMBER.fullmatch(word) and int(word) < len(labels):
        meanings["a 0-based index"] = labels[int(word)]
    return meanings


def _nothing(found: object, labels: str, *, untyped: bool) -> FieldTrouble:
    ways = f"a label ({labels[0]} to {labels[-1]}), a 0-based index, or the exact text of a choice"
    hint = f"Expected {ways}."
    if isinstance(found, str) and _NUMBER.fullmatch(found) and not untyped:
        hint += " An index is written without quotes."
    elif not isinstance(found, str) or not found.strip():
        hint += " Where no key is known, leave it out."
    return FieldTrouble("answer", f"{shown_value(found)} names no choice.", hint)
