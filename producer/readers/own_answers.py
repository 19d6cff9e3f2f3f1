"""Determining which choice an answer names in our own JSON, in files and over HTTP: each row by itself, by type.

A text is a label or the text of a choice, a number is an index from 0, and a list names several right choices. A file
whose numbers may count from 1 is refused, or read with a warning, by how likely it is that none of them is 0.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from contract.question import LABELS
from producer.readers.answers import SAY_BASE, SAY_TEXTS_OR_BASE, Given, Way, meant, shown_answer, usual_letter
from producer.readers.choices import unmarked
from producer.readers.record import FieldTrouble, shown_value

__all__ = ["IN_FILE", "IN_REQUEST", "answer_label", "may_count_from_1", "own_labels", "refuse_doubtful_numbers"]

_NUMBER = re.compile(r"[0-9]{1,9}")
#: Limits of the probability that no index of a file is 0 though they count from 0, if all choices are right equally
#: often: below the first, the file is refused; below the second, there is a warning.
_IMPROBABLE = 1e-4
_UNLIKELY = 0.05


class Remedies(NamedTuple):
    """What to do about numbers: in a request, which has no options, or in a file."""

    #: About an index as large as the number of choices.
    beyond: str
    #: About a number in quotes.
    quoted: str


IN_REQUEST = Remedies("Indices count from 0.", "Write an index without quotes.")
IN_FILE = Remedies(
    "Indices count from 0: if those of this file count from 1, add --map base=1.",
    "If it is an index, add --map base=0 or --map base=1, the index of the first choice.",
)


def own_labels(answer: object, choices: Sequence[str], remedies: Remedies = IN_REQUEST) -> tuple[str, ...]:
    """Return the labels of the choices that `answer` names, in order; empty without a key. Raises FieldTrouble."""
    if isinstance(answer, list):
        found = [label for each in answer if (label := answer_label(each, choices, remedies))]
        if len({*found}) < len(found):
            hint = "List each right choice once, by its label."
            raise FieldTrouble("answer", f"{shown_value(answer)} names a choice twice.", hint, kind="names one twice")
        return tuple(sorted(found))
    label = answer_label(answer, choices, remedies)
    return (label,) if label else ()


def refuse_doubtful_numbers(head: Sequence[tuple[object, Sequence[str]]]) -> None:
    """Raise FieldTrouble if the numbers of a file are not indices from 0, or may not be."""
    numbers = _indices(head)
    if not numbers:
        return
    if all(at != 0 for _, at, _ in numbers):
        if any(at == len(choices) for _, at, choices in numbers):
            message = "no answer is 0, and some are as large as the number of choices: they do not count from 0."
            raise FieldTrouble("answer", message, "Add --map base=1.", kind="counted from 1")
        if all(_are_numbered(choices) for _, _, choices in numbers):
            message = f"{numbers[0][1]} may be the number at the start of a choice, or an index from 0."
            raise FieldTrouble("answer", message, SAY_BASE, kind="may count from 0 or from 1")
        if _chance_of_no_zero(numbers) < _IMPROBABLE:
            message = (
                f"none of {len(numbers):,} numbers is 0: they may count from 1, or the first choice is never right."
            )
            raise FieldTrouble("answer", message, SAY_BASE, kind="may count from 0 or from 1")
    texts = [_place_of_text(at, choices) for _, at, choices in numbers]
    if None not in texts:
        differ = [(place, at) for (place, at, _), text in zip(numbers, texts, strict=True) if text != at]
        if differ:
            place, at = differ[0]
            message = f"{at} is ambiguous: it may be the text of a choice, or an index from 0."
            raise FieldTrouble("answer", message, SAY_TEXTS_OR_BASE, kind="ambiguous", place=place)


def may_count_from_1(head: Sequence[tuple[object, Sequence[str]]]) -> bool:
    """Whether numbers that are read as indices from 0 may well count from 1: none is 0, which is unlikely by chance."""
    numbers = _indices(head)
    return all(at != 0 for _, at, _ in numbers) and _chance_of_no_zero(numbers) < _UNLIKELY


def _indices(head: Sequence[tuple[object, Sequence[str]]]) -> list[tuple[int, int, Sequence[str]]]:
    """Return the numbers among the answers and in lists of several, each with its place in `head` and its choices."""
    return [
        (place, at, choices)
        for place, (answer, choices) in enumerate(head)
        for each in (answer if isinstance(answer, list) else [answer])
        if (at := _index(each)) is not None and len(choices) > 1
    ]


def _chance_of_no_zero(numbers: Sequence[tuple[int, int, Sequence[str]]]) -> float:
    """Return at most how probable it is that none of `numbers` is 0; of those in one list, it is even less probable."""
    return math.prod(1 - 1 / len(choices) for _, _, choices in numbers)


def _index(answer: object) -> int | None:
    if isinstance(answer, bool) or not isinstance(answer, int | float):
        return None
    return int(answer) if answer == answer // 1 and answer >= 0 else None


def _place_of_text(number: int, choices: Sequence[str]) -> int | None:
    """Return the place of the first choice that reads `2` or `2.0`; None if there is none."""
    return next((at for at, text in enumerate(choices) if text in (str(number), f"{number}.0")), None)


def _are_numbered(choices: Sequence[str]) -> bool:
    """Whether the choices begin with numbers (1. 2. 3.), which are then their labels."""
    return (unmarked(choices).labels or [""])[0].isdigit()


def answer_label(found: object, choices: Sequence[str], remedies: Remedies = IN_REQUEST) -> str | None:
    """Return the label of the choice that `found` names in our own JSON; None for no key. Raises FieldTrouble."""
    labels = LABELS[: len(choices)]
    if found is None:
        return None
    if isinstance(found, float) and found.is_integer():
        found = int(found)
    if isinstance(found, int) and not isinstance(found, bool):
        return _by_own_index(found, labels, remedies)
    if not isinstance(found, str):
        raise _names_no_choice(found, choices, remedies)
    word = found.strip()
    letter = usual_letter(word).upper()
    if len(letter) == 1 and letter in labels and word not in map(str.strip, choices):
        return letter
    meanings = _meanings(word, choices, labels)
    if not meanings:
        raise _names_no_choice(found, choices, remedies)
    if len(set(meanings.values())) > 1:
        readings = " and ".join(f"{how} ({label})" for how, label in meanings.items())
        # Its label may be what is ambiguous, and so may be the text that belongs to it.
        indices = " or ".join(f"{labels.index(label)} for choice {label}" for label in dict.fromkeys(meanings.values()))
        hint = f"Write the right choice's index, without quotes: {indices}."
        raise FieldTrouble("answer", f"{found!r} is ambiguous: it is {readings}.", hint, kind="ambiguous")
    return next(iter(meanings.values()))


def _by_own_index(index: int, labels: str, remedies: Remedies) -> str:
    if not 0 <= index < len(labels):
        hint = "If there is no key, remove the field." if index < 0 else remedies.beyond
        message = f"found index {index}, expected 0 to {len(labels) - 1}."
        raise FieldTrouble("answer", message, hint, kind="names no choice")
    return labels[index]


def _meanings(word: str, choices: Sequence[str], labels: str) -> Mapping[str, str]:
    """Return every way to read `word`, with the resulting label."""
    read_so = (label for label, text in zip(labels, choices, strict=True) if text.strip() == word)
    meanings = {f"the text of choice {label}": label for label in read_so}
    return {"a label": word.upper(), **meanings} if len(word) == 1 and word.upper() in labels else meanings


def _names_no_choice(found: object, choices: Sequence[str], remedies: Remedies) -> FieldTrouble:
    if len(several := meant(Given(found, choices), Way.LABEL)) > 1:
        hint = f"If each of them is right, write them as a list: {json.dumps(several)}."
        return FieldTrouble("answer", f"{shown_value(found)} are several labels.", hint, kind="several labels")
    labels = LABELS[: len(choices)]
    hint = f"Expected a label ({labels[0]} to {labels[-1]}), a 0-based index, or the exact text of a choice."
    if isinstance(found, str) and _NUMBER.fullmatch(found):
        hint += f" {remedies.quoted}"
    elif not isinstance(found, str) or not found.strip():
        hint += " If there is no key, remove the field."
    return FieldTrouble("answer", f"{shown_answer(found)} names no choice.", hint, kind="names no choice")
