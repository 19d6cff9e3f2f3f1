"""Which choice a file's answer means, where the file is not our own JSON (that is `own_answers`).

A file's answers are looked at together (`settle`), because one of them alone can often be read in several ways:

| way      | `2` with the choices red, green, blue    | excluded for the whole file by                                 |
|----------|------------------------------------------|----------------------------------------------------------------|
| LABEL    | nothing, unless the file calls one 2     | an answer that is no label                                     |
| TEXT     | nothing, unless a choice reads 2         | an answer that is no choice's text                             |
| INDEX_0  | blue                                     | an answer as large as the number of choices                    |
| INDEX_1  | green                                    | an answer 0                                                    |

Where two readings of an answer name different choices and nothing in the file decides between them, nobody can know
which was meant: the row is refused.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from enum import Enum
from typing import NamedTuple

from contract.question import LABELS
from producer.readers.record import FieldTrouble, shown_value

__all__ = ["Given", "Way", "names_a_choice", "no_key", "right_labels", "settle"]

_INDEX = re.compile(r"([0-9]{1,9})(?:\.0)?")
_SENTENCE = re.compile(r"(?:the )?(?:correct |right )?answer is:?\s*", re.IGNORECASE)
_MARKED = re.compile(r"[(\[]?([A-Za-z]|\d{1,2})(?:[)\].:．：、）]+\s*(.*))?", re.DOTALL)
_SEVERAL = re.compile(r"\s*(?:[,;/|]|\band\b|\s)\s*")
#: Share of a file's answers that a way must explain to be the file's way.
_MOST = 0.9


class Way(Enum):
    """How an answer names a choice."""

    LABEL = "by label"
    TEXT = "by text"
    INDEX_0 = "by index from 0"
    INDEX_1 = "by index from 1"
    #: Not the same way in all rows, or not known: whatever reads it, if there is no doubt.
    ANY = "as each row has it"


class Given(NamedTuple):
    """An answer as the file gives it, beside what it is about."""

    answer: object
    choices: Sequence[str]
    #: What the file calls the choices; None: A, B, …
    labels: Sequence[str] | None = None


def no_key(found: object) -> bool:
    """Whether `found` is how files say that no answer is known: nothing, an empty text or list, NaN, or -1."""
    if isinstance(found, float) and math.isnan(found):
        return True
    return found is None or found == -1 or found in ("", "-1") or found == []


def names_a_choice(given: Given) -> bool:
    """Whether there is any way in which this could be the answer."""
    return not no_key(given.answer) and any(_read(given, way) for way in Way if way is not Way.ANY)


def settle(given: Iterable[Given], ways: Sequence[Way]) -> Way:
    """The way in which these answers are meant, of `ways`; of two that do the same, the first."""
    known = [each for each in given if not no_key(each.answer)]
    readings = {way: [_read(each, way) for each in known] for way in ways}
    counts = {way: sum(map(bool, read)) for way, read in readings.items()}
    most = max(counts.values(), default=0)
    if not most or most < _MOST * len(known):
        return Way.ANY
    best = [way for way in ways if counts[way] == most]
    differ = [way for way in best[1:] if _differ(readings[best[0]], readings[way])]
    # How numbers count is known by convention where the file does not show it: as its columns, else from 0. Whether a
    # text is meant is not.
    return Way.ANY if Way.TEXT in {best[0], *differ} and differ else best[0]


def _differ(some: Sequence[tuple[str, ...]], others: Sequence[tuple[str, ...]]) -> bool:
    return any(one and other and one != other for one, other in zip(some, others, strict=True))


def right_labels(given: Given, way: Way) -> tuple[str, ...]:
    """Our labels of the choices that are right, in order; empty without a key. Raises FieldTrouble."""
    if no_key(given.answer):
        return ()
    if way is not Way.ANY and (found := _read(given, way)):
        return found
    meanings = {each: found for each in (Way.LABEL, Way.TEXT) if (found := _read(given, each))}
    if way is Way.ANY and Way.LABEL not in meanings and (found := _read(given, Way.INDEX_0)):
        meanings[Way.INDEX_0] = found
    if not meanings:
        raise _no_choice(given, way)
    if len(set(meanings.values())) > 1:
        readings = " and ".join(f"{each.value} it is {', '.join(found)}" for each, found in meanings.items())
        hint = "Write the right choice's label."
        raise FieldTrouble("answer", f"{shown_value(given.answer)} is ambiguous: {readings}.", hint, kind="ambiguous")
    return next(iter(meanings.values()))


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
    labels = [each.upper() for each in given.labels] if given.labels else list(LABELS[: len(given.choices)])
    word = _SENTENCE.sub("", answer.strip(), count=1).strip()
    if word.upper() in labels:
        return LABELS[labels.index(word.upper())]
    marked = _MARKED.fullmatch(word)
    if marked is None or marked[1].upper() not in labels:
        return ""
    place = labels.index(marked[1].upper())
    rest = (marked[2] or "").strip().rstrip(".").casefold()
    return LABELS[place] if not rest or rest == given.choices[place].strip().rstrip(".").casefold() else ""


def _several(answer: str, given: Given) -> tuple[str, ...]:
    """`A, C`, `A and C`, `AC`: labels of several right choices."""
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
    expected = f"a label ({labels[0]} to {labels[-1]}) or the exact text of a choice"
    if way in {Way.INDEX_0, Way.INDEX_1}:
        first = int(way is Way.INDEX_1)
        expected = f"{first} to {len(labels) - 1 + first}, as in the other rows"
    hint = f"Expected {expected}. Where no key is known, leave it empty."
    return FieldTrouble("answer", f"{shown_value(given.answer)} names no choice.", hint, kind="names no choice")
