"""Determining which choice an answer names, in files other than our own JSON (for which see `own_answers`).

All answers of a file are considered together (`settle`), because a single one can often be read in several ways:

| way      | `2` with the choices red, green, blue    | excluded for the whole file by                                 |
|----------|------------------------------------------|----------------------------------------------------------------|
| LABEL    | none, unless a choice is labelled 2      | an answer that is not a label                                  |
| TEXT     | none, unless the text of a choice is 2   | an answer that is not the text of a choice                     |
| INDEX_0  | blue                                     | an answer as large as the number of choices                    |
| INDEX_1  | green                                    | an answer 0                                                    |
| FLAGS    | none; `[0, 0, 1]`: blue                  | an answer that is no list of a 0 or 1 for each choice          |

If two readings of an answer name different choices and nothing in the file decides between them, the row is refused. If
the file is ambiguous only because no answer is 0 or as large as the number of choices, the whole file is refused,
unless its layout or the field's name says how its numbers count; `--map base=…` resolves this.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterable, Sequence
from enum import Enum
from typing import NamedTuple

from contract.question import LABELS
from producer.readers.choices import in_order
from producer.readers.record import FieldTrouble, shown_value

__all__ = [
    "INDICES",
    "SAY_BASE",
    "SAY_TEXTS_OR_BASE",
    "WAYS",
    "Given",
    "Way",
    "are_flags",
    "folded",
    "is_number",
    "meant",
    "names_a_choice",
    "no_key",
    "read_as",
    "right_labels",
    "settle",
    "shown_answer",
    "usual_letter",
]

_INDEX = re.compile(r"([0-9]{1,9})(?:\.0)?")
_SENTENCE = re.compile(r"(?:the )?(?:correct |right )?answer is:?\s*", re.IGNORECASE)
_MARKED = re.compile(r"[(\[]?([A-Za-z]|\d{1,2})(?:[)\].:．：、）]+\s*(.*))?", re.DOTALL)
_FLAGS = (0, 1, "0", "1")
_SEVERAL = re.compile(r"\s*(?:[,;/|]|\band\b|\s)\s*")
#: Minimum share of a file's readable answers that a way must be able to read to be the way of the file.
_MOST = 0.9


class Way(Enum):
    """How an answer names a choice."""

    LABEL = "by label"
    TEXT = "by text"
    INDEX_0 = "by index from 0"
    INDEX_1 = "by index from 1"
    FLAGS = "by a 0 or 1 for each choice"
    #: The way differs between rows or is unknown: each answer is read in any way, if that is unambiguous.
    ANY = "as label, text or index"
    #: As ANY, with a known base of the indices.
    ANY_0 = "as label, text or index from 0"
    ANY_1 = "as label, text or index from 1"


INDICES = (Way.INDEX_0, Way.INDEX_1)
#: The ways to read an answer that is no list of flags; of equivalent ones, the first is taken.
WAYS = (Way.LABEL, Way.TEXT, *INDICES)
#: The ways that may not be the same in all rows → how they read indices.
_MIXED = {Way.ANY: INDICES, Way.ANY_0: (Way.INDEX_0,), Way.ANY_1: (Way.INDEX_1,)}
_BASE = "--map base=0 or --map base=1, the index of the first choice."
SAY_BASE = f"Add {_BASE}"
#: The same, for answers that may be texts as well.
SAY_TEXTS_OR_BASE = f"If all answers are texts, put them in quotes. If all are indices, add {_BASE}"


class Given(NamedTuple):
    """An answer as given in the file, with the question's choices."""

    answer: object
    choices: Sequence[str]
    #: The file's labels of the choices; None for A, B, …
    labels: Sequence[str] | None = None


def no_key(found: object, choices: Sequence[str]) -> bool:
    """Whether `found` means that no answer is known: None, an empty text or list, or NaN.

    So does -1, unless it is the text of one of the `choices`.
    """
    if isinstance(found, float) and math.isnan(found):
        return True
    if _is_minus_one(found):
        return not any(each.strip() == "-1" for each in choices)
    return found is None or found == "" or found == []


def _is_minus_one(found: object) -> bool:
    return found in (-1, "-1")


def is_number(found: object) -> bool:
    """Whether `found` is a number, a text that consists of one, or a list of these."""
    if isinstance(found, list | tuple):
        return bool(found) and all(map(is_number, found))
    return isinstance(found, int | float) or (isinstance(found, str) and bool(_INDEX.fullmatch(found.strip())))


def names_a_choice(given: Given) -> bool:
    """Whether `given` names a choice in any way."""
    return not no_key(given.answer, given.choices) and any(read_as(given, way) for way in (*WAYS, Way.FLAGS))


def settle(given: Iterable[Given], ways: Sequence[Way], usual: Way | None = None) -> Way:
    """Return the one of `ways`, or of FLAGS, in which these answers name choices; of equivalent ones, the first.

    If the numbers do not show whether they count from 0 or from 1, the result is the first of `ways`, if that is an
    index, or `usual`. Raises FieldTrouble if that does not decide it either.
    """
    known = [each for each in given if not no_key(each.answer, each.choices)]
    # A -1 that is also the text of a choice may still mean "no key", so the way is decided by the other answers.
    known = [each for each in known if not _is_minus_one(each.answer)] or known
    # With two choices, [0, 1] may also be the indices of both, which would say nothing.
    tried = (Way.FLAGS, *ways) if any(map(are_flags, known)) else ways
    readings = {way: [read_as(each, way) for each in known] for way in tried}
    # Answers that no way can read (`?`, `n/a`) say nothing about the others.
    readable = sum(map(any, zip(*readings.values(), strict=True)))
    counts = {way: sum(map(bool, read)) for way, read in readings.items()}
    most = max(counts.values())
    if not most or most < _MOST * readable:
        return _mixed(known, ways)
    best = [way for way in tried if counts[way] == most]
    bases = [way for way in ways if way in INDICES]
    if len(bases) == 1 and best[0] not in INDICES and any(readings[bases[0]]):
        # The user has given the base of the numbers among them.
        return _mixed(known, ways)
    differ = [way for way in best[1:] if _differ(readings[best[0]], readings[way])]
    if not differ or (best[0] is ways[0] and best[0] in INDICES):
        return best[0]
    if Way.TEXT in {best[0], *differ}:
        return Way.ANY
    if best[0] not in INDICES:
        return best[0]
    if usual is None:
        raise _undecided(known)
    return usual


def _mixed(known: Sequence[Given], ways: Sequence[Way]) -> Way:
    """Return the way for answers of different kinds, with the base of the indices if the numbers among them show it."""
    bases = [way for way in ways if way in INDICES]
    if len(bases) > 1:
        numbers = [each for each in known if is_number(each.answer) and not read_as(each, Way.LABEL)]
        bases = [way for way in bases if numbers and all(read_as(each, way) for each in numbers)]
    return next((mixed for mixed, indices in _MIXED.items() if indices == tuple(bases)), Way.ANY)


def _undecided(known: Sequence[Given]) -> FieldTrouble:
    """Return the error for answers among which there is neither a 0 nor the number of choices."""
    shown = shown_value(next(each.answer for each in known if read_as(each, Way.INDEX_1)))
    message = f"{shown} may count from 0 or from 1: no answer is 0 or as large as the number of choices."
    return FieldTrouble("answer", message, SAY_BASE, kind="may count from 0 or from 1")


def _differ(some: Sequence[tuple[str, ...]], others: Sequence[tuple[str, ...]]) -> bool:
    return any(one and other and one != other for one, other in zip(some, others, strict=True))


def right_labels(given: Given, way: Way) -> tuple[str, ...]:
    """Return our labels of the right choices, in order; empty without a key. Raises FieldTrouble."""
    # Among indices, -1 means "no key" even if it is also the text of a choice.
    if no_key(given.answer, given.choices) or (way in INDICES and _is_minus_one(given.answer)):
        return ()
    if way not in _MIXED and (found := read_as(given, way)):
        return found
    meanings = {each: found for each in (Way.LABEL, Way.TEXT) if (found := read_as(given, each))}
    if way in _MIXED and Way.LABEL not in meanings:
        indices = {each: read_as(given, each) for each in _MIXED[way]}
        if any(indices.values()):
            # Keep a base by which the answer names no choice: that alone does not make the other one certain.
            meanings |= indices
    if not meanings:
        raise _no_choice(given, way)
    if len(set(meanings.values())) > 1:
        readings = " and ".join(f"{each.value} it is {', '.join(found) or 'none'}" for each, found in meanings.items())
        hint = _say_both(given, meanings[Way.TEXT]) if Way.TEXT in meanings else SAY_BASE
        raise FieldTrouble("answer", f"{shown_value(given.answer)} is ambiguous: {readings}.", hint, kind="ambiguous")
    return next(iter(meanings.values()))


def _say_both(given: Given, by_text: tuple[str, ...]) -> str:
    """Return the remedy for an answer that may be a text: a label alone may be just as ambiguous."""
    at = LABELS.index(by_text[0])
    shown = f"{(given.labels or LABELS)[at]}. {given.choices[at]}"
    return f"Write the right choice's label and text, for example {shown_value(shown)}."


def meant(given: Given, way: Way) -> tuple[str, ...]:
    """Return `right_labels`, or an empty tuple if the answer names no choice or is ambiguous."""
    try:
        return right_labels(given, way)
    except FieldTrouble:
        return ()


def read_as(given: Given, way: Way) -> tuple[str, ...]:
    """Return the labels that the answer names if read in this way; empty if it cannot be read so."""
    answer = given.answer
    if way is Way.FLAGS:
        return _flagged(given) or ()
    if isinstance(answer, list | tuple):
        return _in_order_if_distinct([_label_of_one(item, given, way) for item in answer])
    if label := _label_of_one(answer, given, way):
        return (label,)
    if way is Way.LABEL and isinstance(answer, str):
        return _several(answer, given)
    return ()


def are_flags(given: Given) -> bool:
    """Whether the answer is a list of a 0 or 1, or false or true, for each choice."""
    return _flagged(given) is not None


def _flagged(given: Given) -> tuple[str, ...] | None:
    answer = given.answer
    if not isinstance(answer, list | tuple) or len(answer) != len(given.choices):
        return None
    if not all(each in _FLAGS for each in answer):
        return None
    return tuple(label for label, flag in zip(LABELS, answer, strict=False) if int(flag))


def _in_order_if_distinct(found: Sequence[str]) -> tuple[str, ...]:
    """Return the labels in order; empty if one is missing, or there twice: `[0, 1, 0]` is no list of indices."""
    return tuple(sorted(found)) if all(found) and len({*found}) == len(found) else ()


def _label_of_one(answer: object, given: Given, way: Way) -> str:
    if isinstance(answer, bool) or not isinstance(answer, str | int | float):
        return ""
    if way is Way.TEXT:
        return _by_text(str(answer), given)
    if isinstance(answer, float):
        if not answer.is_integer():
            return ""
        answer = int(answer)
    if way is Way.LABEL:
        return _by_label(str(answer), given)
    index = _INDEX.fullmatch(str(answer).strip())
    place = int(index[1]) - (way is Way.INDEX_1) if index else -1
    return LABELS[place] if 0 <= place < len(given.choices) else ""


def _by_text(answer: str, given: Given) -> str:
    for fold in (str.strip, folded, _whole):
        places = [at for at, text in enumerate(given.choices) if fold(text) == fold(answer)]
        if len(places) == 1:
            return LABELS[places[0]]
    return ""


def folded(text: str) -> str:
    """Return a text as it is compared with others: without case, white space around it, and full stops at its end."""
    return text.strip().rstrip(".").casefold()


def _whole(text: str) -> str:
    """Return `2` for `2.0`, as pandas writes it where a cell of the column is empty; any other text unchanged."""
    found = _INDEX.fullmatch(text.strip())
    return found[1] if found else text


def _by_label(answer: str, given: Given) -> str:
    """Return the label in `B`, `b`, `(B)`, `B)`, `B. its text` or `The correct answer is B`; empty if there is none."""
    ours = list(LABELS[: len(given.choices)])
    labels = [each.upper() for each in given.labels] if given.labels else ours
    word = _SENTENCE.sub("", answer.strip(), count=1).strip()
    # If the choices are numbered in order, B still means the second one.
    return _labelled(word, labels, given.choices) or (_labelled(word, ours, given.choices) if in_order(labels) else "")


def _labelled(word: str, labels: Sequence[str], choices: Sequence[str]) -> str:
    """Return our label of the one choice that `word` names by one of `labels`; empty if there is none, or two."""
    letter = usual_letter(word).upper()
    if labels.count(letter) == 1:
        return LABELS[labels.index(letter)]
    marked = _MARKED.fullmatch(word)
    if marked is None or labels.count(marked[1].upper()) != 1:
        return ""
    place = labels.index(marked[1].upper())
    rest = folded(marked[2] or "")
    return LABELS[place] if not rest or rest == folded(choices[place]) else ""


def _several(answer: str, given: Given) -> tuple[str, ...]:
    """Return the labels in `A, C`, `A and C` or `AC`, unless a choice has exactly that text (such as a genotype)."""
    if any(text.strip() == answer.strip() for text in given.choices):
        return ()
    words = [word for word in _SEVERAL.split(answer.strip().strip("[]()")) if word]
    words = [word.strip("'\"") for word in words]
    if len(words) == 1 and words[0].isupper() and len(words[0]) > 1:
        words = list(words[0])
        if words != sorted(set(words)):
            return ()
    if not 1 < len(words) <= len(given.choices):  # a text: of more words, not all can be labels of different choices
        return ()
    return _in_order_if_distinct([_by_label(word, given) for word in words])


def _no_choice(given: Given, way: Way) -> FieldTrouble:
    labels = list(given.labels or LABELS[: len(given.choices)])
    if isinstance(given.answer, str) and len(alike := _labels_with_text(given.answer, labels, given.choices)) > 1:
        message = f"{shown_answer(given.answer)} is the text of choices {', '.join(alike[:-1])} and {alike[-1]}."
        hint = "Name the right one by its label, or remove the other."
        return FieldTrouble("answer", message, hint, kind="the text of two choices")
    if way is Way.FLAGS:
        hint = "Expected a list with a 0 or 1 for each choice, as in the other rows."
    elif way in INDICES:
        first = int(way is Way.INDEX_1)
        other = f"use --map base={1 - first} if they count from {1 - first}."
        hint = f"Expected {first} to {len(labels) - 1 + first}, as in the other rows; {other}"
    else:
        hint = f"Expected a label ({labels[0]} to {labels[-1]}) or the exact text of a choice."
    twice = next((each for each in labels if labels.count(each) > 1), None)
    hint += f" Two choices are labelled {twice}." if twice else " If there is no key, leave it empty."
    return FieldTrouble("answer", f"{shown_answer(given.answer)} names no choice.", hint, kind="names no choice")


def _labels_with_text(text: str, labels: Sequence[str], choices: Sequence[str]) -> list[str]:
    """Return the labels of the choices with this text."""
    return [label for label, choice in zip(labels, choices, strict=False) if choice.strip() == text.strip()]


def usual_letter(word: str) -> str:
    """Return the usual form of a single character, as `A` for the full-width `Ａ`; any other text unchanged."""
    return unicodedata.normalize("NFKC", word) if len(word) == 1 else word


def shown_answer(found: object) -> str:
    """Return `found` quoted for a message; with its name if it is a letter that may look like one of ours."""
    word = found.strip() if isinstance(found, str) else ""
    foreign = len(word) == 1 and word.isalpha() and not word.isascii()
    return f"{shown_value(found)} ({unicodedata.name(word, 'unnamed')})" if foreign else shown_value(found)
