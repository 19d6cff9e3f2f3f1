"""Which choice a file's answer means, where the file is not our own JSON (that is `own_answers`).

A file's answers are looked at together (`settle`), because one of them alone can often be read in several ways:

| way      | `2` with the choices red, green, blue    | excluded for the whole file by                                 |
|----------|------------------------------------------|----------------------------------------------------------------|
| LABEL    | nothing, unless the file calls one 2     | an answer that is no label                                     |
| TEXT     | nothing, unless a choice reads 2         | an answer that is no choice's text                             |
| INDEX_0  | blue                                     | an answer as large as the number of choices                    |
| INDEX_1  | green                                    | an answer 0                                                    |

Where two readings of an answer name different choices and nothing in the file decides between them, nobody can know
which was meant: the row is refused. Where it is only that no answer is 0 or as large as the number of choices, the file
is, unless its layout or the field's name says how its numbers count: `--map base=…` says it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from enum import Enum
from typing import NamedTuple

from contract.question import LABELS
from producer.readers.record import FieldTrouble, shown_value

__all__ = ["INDICES", "Given", "Way", "is_number", "meant", "names_a_choice", "no_key", "right_labels", "settle"]

_INDEX = re.compile(r"([0-9]{1,9})(?:\.0)?")
_SENTENCE = re.compile(r"(?:the )?(?:correct |right )?answer is:?\s*", re.IGNORECASE)
_MARKED = re.compile(r"[(\[]?([A-Za-z]|\d{1,2})(?:[)\].:．：、）]+\s*(.*))?", re.DOTALL)
_SEVERAL = re.compile(r"\s*(?:[,;/|]|\band\b|\s)\s*")
#: Share of a file's answers that a way must explain to be the file's way, of those that any way explains.
_MOST = 0.9


class Way(Enum):
    """How an answer names a choice."""

    LABEL = "by label"
    TEXT = "by text"
    INDEX_0 = "by index from 0"
    INDEX_1 = "by index from 1"
    #: Not the same way in all rows, or not known: whatever reads it, if there is no doubt.
    ANY = "as label, text or index"
    #: The same, and it is known how the numbers among them count.
    ANY_0 = "as label, text or index from 0"
    ANY_1 = "as label, text or index from 1"


INDICES = (Way.INDEX_0, Way.INDEX_1)
_SINGLE = (Way.LABEL, Way.TEXT, *INDICES)
#: How numbers may be meant where not all rows have the same way.
_MIXED = {Way.ANY: INDICES, Way.ANY_0: (Way.INDEX_0,), Way.ANY_1: (Way.INDEX_1,)}
_SAY_BASE = "Say --map base=0 or --map base=1: what the first choice counts as."


class Given(NamedTuple):
    """An answer as the file gives it, beside what it is about."""

    answer: object
    choices: Sequence[str]
    #: What the file calls the choices; None: A, B, …
    labels: Sequence[str] | None = None


def no_key(found: object, choices: Sequence[str]) -> bool:
    """Whether `found` is how files say that no answer is known: nothing, an empty text or list, or NaN.

    So is -1, unless it is what one of the `choices` reads.
    """
    if isinstance(found, float) and math.isnan(found):
        return True
    if _is_minus_one(found):
        return not any(each.strip() == "-1" for each in choices)
    return found is None or found == "" or found == []


def _is_minus_one(found: object) -> bool:
    return found in (-1, "-1")


def is_number(found: object) -> bool:
    """Whether this is a number, a text of one, or a list of these."""
    if isinstance(found, list | tuple):
        return bool(found) and all(map(is_number, found))
    return isinstance(found, int | float) or (isinstance(found, str) and bool(_INDEX.fullmatch(found.strip())))


def names_a_choice(given: Given) -> bool:
    """Whether there is any way in which this could be the answer."""
    return not no_key(given.answer, given.choices) and any(_read(given, way) for way in _SINGLE)


def settle(given: Iterable[Given], ways: Sequence[Way], usual: Way | None = None) -> Way:
    """The way in which these answers are meant, of `ways`; of two that do the same, the first.

    Where the numbers do not show whether they count from 0 or from 1, they count as the index that is first of `ways`,
    or as `usual`. Raises FieldTrouble where nothing says it.
    """
    known = [each for each in given if not no_key(each.answer, each.choices)]
    # A -1 that a choice reads may be no key all the same: it is the others that show how answers are meant.
    known = [each for each in known if not _is_minus_one(each.answer)] or known
    readings = {way: [_read(each, way) for each in known] for way in ways}
    # What no way reads (`?`, `n/a`) says nothing of how the others are meant.
    readable = sum(map(any, zip(*readings.values(), strict=True)))
    counts = {way: sum(map(bool, read)) for way, read in readings.items()}
    most = max(counts.values(), default=0)
    if not most or most < _MOST * readable:
        return _mixed(known, ways)
    best = [way for way in ways if counts[way] == most]
    bases = [way for way in ways if way in INDICES]
    if len(bases) == 1 and best[0] not in INDICES and any(readings[bases[0]]):
        # The person has said how the numbers among them count.
        return _mixed(known, ways)
    differ = [way for way in best[1:] if _differ(readings[best[0]], readings[way])]
    if not differ or (best[0] is ways[0] and best[0] in INDICES):
        return best[0]
    if Way.TEXT in {best[0], *differ}:
        return Way.ANY
    if best[0] in INDICES and usual is None:
        raise _undecided(known)
    return usual if best[0] in INDICES and usual else best[0]


def _mixed(known: Sequence[Given], ways: Sequence[Way]) -> Way:
    """The way of answers that are not all meant alike: by the numbers among them, if these show how they count."""
    bases = [way for way in ways if way in INDICES]
    if len(bases) > 1:
        numbers = [each for each in known if is_number(each.answer) and not _read(each, Way.LABEL)]
        bases = [way for way in bases if numbers and all(_read(each, way) for each in numbers)]
    return next((mixed for mixed, indices in _MIXED.items() if indices == tuple(bases)), Way.ANY)


def _undecided(known: Sequence[Given]) -> FieldTrouble:
    """Neither a 0 nor the number of choices is among the answers."""
    shown = shown_value(next(each.answer for each in known if _read(each, Way.INDEX_1)))
    message = f"{shown} may count from 0 or from 1: no answer is 0 or as large as the number of choices."
    return FieldTrouble("answer", message, _SAY_BASE, kind="may count from 0 or from 1")


def _differ(some: Sequence[tuple[str, ...]], others: Sequence[tuple[str, ...]]) -> bool:
    return any(one and other and one != other for one, other in zip(some, others, strict=True))


def right_labels(given: Given, way: Way) -> tuple[str, ...]:
    """Our labels of the choices that are right, in order; empty without a key. Raises FieldTrouble."""
    # Among indices -1 is none, whatever the choices read.
    if no_key(given.answer, given.choices) or (way in INDICES and _is_minus_one(given.answer)):
        return ()
    if way not in _MIXED and (found := _read(given, way)):
        return found
    meanings = {each: found for each in (Way.LABEL, Way.TEXT) if (found := _read(given, each))}
    if way in _MIXED and Way.LABEL not in meanings:
        indices = {each: _read(given, each) for each in _MIXED[way]}
        if any(indices.values()):
            # One that names no choice stays among them: the other is no surer for it.
            meanings |= indices
    if not meanings:
        raise _no_choice(given, way)
    if len(set(meanings.values())) > 1:
        readings = " and ".join(f"{each.value} it is {', '.join(found) or 'none'}" for each, found in meanings.items())
        hint = "Write the right choice's label." if Way.TEXT in meanings else _SAY_BASE
        raise FieldTrouble("answer", f"{shown_value(given.answer)} is ambiguous: {readings}.", hint, kind="ambiguous")
    return next(iter(meanings.values()))


def meant(given: Given, way: Way) -> tuple[str, ...]:
    """`right_labels`, but empty as well where the answer names no choice, or not surely one."""
    try:
        return right_labels(given, way)
    except FieldTrouble:
        return ()


def _read(given: Given, way: Way) -> tuple[str, ...]:
    """The labels that the answer means if it is meant this way; empty if it cannot be."""
    answer = given.answer
    if isinstance(answer, list | tuple):
        each = [_one(item, given, way) for item in answer]
        return tuple(sorted(set(each))) if all(each) else ()
    if label := _one(answer, given, way):
        return (label,)
    if way is Way.LABEL and isinstance(answer, str):
        return _several(answer, given)
    return ()


def _one(answer: object, given: Given, way: Way) -> str:
    if isinstance(answer, float) and answer.is_integer():
        answer = int(answer)
    if isinstance(answer, bool) or not isinstance(answer, str | int):
        return ""
    if way is Way.TEXT:
        return _by_text(str(answer), given)
    if way is Way.LABEL:
        return _by_label(str(answer), given)
    index = _INDEX.fullmatch(str(answer).strip())
    place = int(index[1]) - (way is Way.INDEX_1) if index else -1
    return LABELS[place] if 0 <= place < len(given.choices) else ""


def _by_text(answer: str, given: Given) -> str:
    for fold in (str.strip, lambda text: text.strip().rstrip(".").casefold()):
        places = [at for at, text in enumerate(given.choices) if fold(text) == fold(answer)]
        if len(places) == 1:
            return LABELS[places[0]]
    return ""


def _by_label(answer: str, given: Given) -> str:
    """`B`, `b`, `(B)`, `B)`, `B. its text`, `The correct answer is B`."""
    ours = list(LABELS[: len(given.choices)])
    labels = [each.upper() for each in given.labels] if given.labels else ours
    word = _SENTENCE.sub("", answer.strip(), count=1).strip()
    found = _labelled(word, labels, given.choices)
    # Beside choices that are numbered in order, B is the second as anywhere.
    numbered = labels in ([str(at + first) for at in range(len(labels))] for first in (0, 1))
    return found or (_labelled(word, ours, given.choices) if numbered else "")


def _labelled(word: str, labels: Sequence[str], choices: Sequence[str]) -> str:
    if word.upper() in labels:
        return LABELS[labels.index(word.upper())]
    marked = _MARKED.fullmatch(word)
    if marked is None or marked[1].upper() not in labels:
        return ""
    place = labels.index(marked[1].upper())
    rest = (marked[2] or "").strip().rstrip(".").casefold()
    return LABELS[place] if not rest or rest == choices[place].strip().rstrip(".").casefold() else ""


def _several(answer: str, given: Given) -> tuple[str, ...]:
    """`A, C`, `A and C`, `AC`: labels of several right choices, unless a choice reads just so (a genotype)."""
    if any(text.strip() == answer.strip() for text in given.choices):
        return ()
    words = [word for word in _SEVERAL.split(answer.strip().strip("[]()")) if word]
    words = [word.strip("'\"") for word in words]
    if len(words) == 1 and words[0].isupper() and len(words[0]) > 1:
        words = list(words[0])
        if words != sorted(set(words)):
            return ()
    found = [_by_label(word, given) for word in words]
    return tuple(sorted(set(found))) if len(words) > 1 and all(found) else ()


def _no_choice(given: Given, way: Way) -> FieldTrouble:
    labels = list(given.labels or LABELS[: len(given.choices)])
    if way in INDICES:
        first = int(way is Way.INDEX_1)
        other = f"--map base={1 - first}, if they count from {1 - first}."
        hint = f"Expected {first} to {len(labels) - 1 + first}, as in the other rows; {other}"
    else:
        hint = f"Expected a label ({labels[0]} to {labels[-1]}) or the exact text of a choice."
    hint += " Where no key is known, leave it empty."
    return FieldTrouble("answer", f"{shown_value(given.answer)} names no choice.", hint, kind="names no choice")
