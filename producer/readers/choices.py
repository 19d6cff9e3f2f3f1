"""Extracting the choices of a record from the many forms in which files store them."""

from __future__ import annotations

import ast
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

from contract.question import LABELS, MAX_CHOICES, MIN_CHOICES
from producer.readers.field_names import CHOICE_FLAGS, CHOICE_LABELS, CHOICE_TEXTS, by_spelling
from producer.readers.inline import Mark, joins, mark_of, split_choices, split_list
from producer.readers.jsonl import DECODER
from producer.readers.record import FieldTrouble, shown_value

__all__ = [
    "EXAMPLE",
    "Choices",
    "as_texts",
    "bare_texts",
    "checked",
    "choices_of",
    "decoded",
    "in_neutral_order",
    "in_order",
    "labelled",
    "marks_repeat_labels",
    "no_list",
    "unmarked",
]

EXAMPLE = 'For example ["red", "blue"].'
#: Names of a choice's text of which a file may also call the letter: {"option": "A", "answer": "Rome"}.
_TEXTS_OR_LETTERS = ("choice", "option", "answer")


class Choices(NamedTuple):
    """The choices of a record."""

    #: Not yet checked to be texts (see `checked`).
    texts: list[Any]
    #: The file's labels; None if it has none.
    labels: list[str] | None = None
    #: Labels of the choices that are flagged as right, our own if the file has none; None if none is flagged.
    right: list[str] | None = None


def no_list(found: object) -> FieldTrouble:
    """Return the error for `found` in place of a list of choices."""
    what = "missing" if found is None else f"found {shown_value(found)}"
    hint = f"{EXAMPLE} Or give each choice a field of its own: A, B, …"
    if found is None:
        hint += (
            "; or name the field that has them with --map choices=FIELD, several with choices=FIELD+FIELD. If the"
            " answers are yes and no, as words or as 1 and 0, use --layout yes-no."
        )
    return FieldTrouble("choices", f"{what}, expected a list of texts.", hint, kind="not a list")


def choices_of(found: object) -> Choices:
    """Return the choices in `found`. Raises FieldTrouble.

    Accepts a list of texts or of objects with text and label; an object label → text or
    {"text": [...], "label": [...]}; and a text that contains such a list or marked choices: "(A) red (B) blue".
    """
    if isinstance(found, str):
        if found.strip()[:1] not in {"[", "{"}:
            return _in_text(found)
        found = decoded(found.strip())
    if isinstance(found, Mapping):
        return labelled(_in_object(found))
    if not isinstance(found, list | tuple):
        raise no_list(found)
    if found and all(isinstance(each, Mapping) for each in found):
        return labelled(_of_objects(found))
    return unmarked(found)


def checked(texts: Sequence[Any]) -> list[str]:
    """Return `texts` as a list. Raises FieldTrouble unless they are two to 26 texts that are not empty."""
    if not MIN_CHOICES <= len(texts) <= MAX_CHOICES:
        message = f"found {len(texts)}, expected {MIN_CHOICES} to {MAX_CHOICES}."
        many = "Choices are labelled A to Z: remove the row, or skip it with --skip-bad."
        hint = many if len(texts) > MAX_CHOICES else "Correct the list, or remove the row."
        raise FieldTrouble("choices", message, hint, kind="too many or too few")
    if not _are_filled(texts):
        _refuse(texts)
    return list(texts)


def _are_filled(texts: Sequence[Any]) -> bool:
    """Whether all are texts that are not blank: of most rows that is all there is to find out."""
    try:
        return all(map(str.strip, texts))
    except TypeError:  # something else than a text
        return False


def _refuse(texts: Sequence[Any]) -> None:
    """Raise FieldTrouble about the first choice that is empty or no text."""
    for label, each in zip(LABELS, texts, strict=False):
        if each is None or (isinstance(each, str) and not each.strip()):
            hint = "Fill it in; where there are fewer choices, leave out the last ones."
            raise FieldTrouble("choices", f"choice {label} is empty.", hint, kind="a choice is empty")
        if not isinstance(each, str):
            message = f"choice {label} is {shown_value(each)}, expected text."
            raise FieldTrouble("choices", message, "Write it in quotes.", kind="a choice is not text")


def in_neutral_order(question: object, texts: Sequence[Any]) -> list[str]:
    """Return the choices in an order that does not reveal the right one: by a hash of the question and the text.

    For files that store the right choice separately or always first. The order does not depend on the question's
    position in the file.
    """
    return sorted(
        checked(texts),
        key=lambda text: hashlib.sha256(f"{question}\x1f{text}".encode(errors="surrogatepass")).digest(),
    )


def as_texts(values: Sequence[Any]) -> list[Any]:
    """Return numbers as texts and anything else unchanged: `2.0` beside whole numbers as `2`.

    A column of whole numbers of which one is missing is a column of floats in pandas: only its choices would look so.
    """
    numbers = [each for each in values if _is_number(each)]
    whole = any(isinstance(each, int) for each in numbers) and all(each == each // 1 for each in numbers)
    return [str(int(each) if whole else each) if _is_number(each) else each for each in values]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def unmarked(texts: Sequence[Any]) -> Choices:
    """Return texts without their marks, "(A)", which become labels, if all have one; numbers become text.

    The marks may be in any order. What begins a choice is no mark if two choices would be the same without it, as the
    ratios "2: 1" and "3: 1"; unless it can be nothing else, as "(A)" in a list of different letters. Raises
    FieldTrouble if such a list has gaps.
    """
    known = _marks(texts) or _marks(texts, spaced=False)
    labels, rests = [mark.label for mark in known], [mark.rest for mark in known]
    in_turn = sorted(mark.rank for mark in known) == list(range(len(texts)))
    certain = len(known) == len(texts) and _are_letters_in_brackets(known)
    if certain and not in_turn:
        message = f"the choices are marked {', '.join(labels)}: a letter could mean the mark or the position."
        hint = "Correct or remove the marks."
        raise FieldTrouble("choices", message, hint, kind="marked with gaps")
    if certain or (in_turn and len(set(rests)) == len({*texts})):
        return Choices(rests, labels)
    return Choices(as_texts(texts))


def _marks(texts: Sequence[Any], *, spaced: bool = True) -> list[Mark]:
    """Return the marks of those texts that have one. Without `spaced`, "A.B" is none: it may be a product."""
    found = [mark for each in texts if isinstance(each, str) and (mark := mark_of(each, spaced=spaced))]
    return found if spaced or all(len(mark.rest) > 1 for mark in found) else []


def labelled(found: Choices) -> Choices:
    """Return choices whose marks become their labels if the file gives them no others.

    Raises FieldTrouble if a letter says something else than the label: an answer could mean either.
    """
    bare = unmarked(found.texts)
    if bare.labels is None:
        return found
    if found.labels is None:
        right = found.right and [bare.labels[LABELS.index(each)] for each in found.right]
        return Choices(bare.texts, bare.labels, right)
    if _are_letters(bare.labels) and not marks_repeat_labels(bare.labels, found.labels):
        label, mark = next(each for each in zip(found.labels, bare.labels, strict=True) if each[0].upper() != each[1])
        message = f"choice {label} is marked {mark}: an answer could mean the label or the mark."
        raise FieldTrouble("choices", message, "Correct or remove the marks.", kind="marked otherwise than labelled")
    return found


def marks_repeat_labels(marks: Sequence[str], labels: Sequence[str] | None) -> bool:
    """Whether the marks of choices are the same as their labels or, if they have none, as their places.

    Numbers are not if the labels are letters, or if there are none: they may be part of the texts.
    """
    same = labels is not None and [each.upper() for each in labels] == list(marks)
    return same or (_are_letters(marks) and in_order(marks) and (labels is None or in_order(labels)))


def bare_texts(texts: Sequence[Any]) -> Sequence[Any]:
    """Return the texts of choices that get another order without their marks, if all have one."""
    bare = unmarked(texts)
    return texts if bare.labels is None else bare.texts


def _are_letters_in_brackets(marks: Sequence[Mark]) -> bool:
    """Whether these can only be marks: `(A) red`; not `(a) and (b)`, nor `(A) only`, `(C) only`."""
    letters, rests = {mark.label for mark in marks if mark.is_letter_in_bracket}, {mark.rest for mark in marks}
    return len(letters) == len(marks) and len(rests) > 1 and not any(joins(rest) for rest in rests)


def _in_text(text: str) -> Choices:
    inside = split_list(text.strip()) or split_choices(f"?\n{text.strip()}")
    if inside is None:
        raise no_list(text)
    return Choices(list(inside.choices), list(inside.labels))


def decoded(cell: str, field: str = "choices", hint: str = EXAMPLE) -> object:
    """Decode a cell with JSON, or with a list as printed by Python or numpy.

    Raises FieldTrouble about `field`, or about a name that is there twice.
    """
    try:
        return DECODER.decode(cell)
    except (ValueError, RecursionError) as trouble:
        printed = _printed(cell)
        if printed is not None:
            return printed
        what = trouble.msg if isinstance(trouble, json.JSONDecodeError) else str(trouble)
        where = f" at character {trouble.pos + 1}" if isinstance(trouble, json.JSONDecodeError) else ""
        message = f"malformed JSON in the cell: {what}{where}."
        raise FieldTrouble(field, message, hint, kind="malformed JSON in a cell") from None


#: A quoted text, with the white space that numpy prints before the next one instead of a comma; and the parts of
#: `array(…, dtype=…)` that numpy prints around a list.
_NUMPY = re.compile(
    r"""(?P<text>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")(?P<gap>\s+(?=['"]))?|\barray(?=\()|,\s*dtype=[^)]*""", re.DOTALL
)


#: The character after a backslash, and those that Python prints there. A cell with any other was not printed by Python,
#: which would read `\alpha` as a control character and `lpha`.
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_PRINTED_ESCAPES = frozenset("\\'\"nrtxuU")


def _printed(cell: str) -> object:
    if not _PRINTED_ESCAPES.issuperset(_ESCAPE.findall(cell)):
        return None
    # Python would concatenate two texts that are separated only by a blank.
    plain = _NUMPY.sub(lambda found: (found["text"] or "") + (", " if found["gap"] else ""), cell)
    try:
        found = ast.literal_eval(plain)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return None
    return found if isinstance(found, list | dict) else None


def _in_object(found: Mapping[Any, Any]) -> Choices:
    known = by_spelling(found)
    texts, labels = _first_of(CHOICE_TEXTS, known), _first_of(CHOICE_LABELS, known)
    if isinstance(texts, list | tuple):
        marks = [str(each) for each in labels] if isinstance(labels, list | tuple) else []
        if marks and len(marks) != len(texts):
            raise _not_all_labelled(f"found {len(marks)} labels for {len(texts)} choices.")
        return Choices(list(texts), marks or None)
    last = max((at for at, text in enumerate(found.values(), start=1) if text is not None), default=0)
    filled = dict(islice(found.items(), last))  # an empty one further up stays: without it, an index would be another's
    return Choices(as_texts(list(filled.values())), [str(label) for label in filled])


def _first_of(names: Sequence[str], known: Mapping[str, Any]) -> Any:
    """Return the value of the first of `names` that is there, even if that is None; None without any."""
    return next((known[each] for each in names if each in known), None)


def _of_objects(found: Sequence[Mapping[str, Any]]) -> Choices:
    first, found = found[0], [by_spelling(each) for each in found]
    texts: list[Any] = [_first_of(CHOICE_TEXTS, each) for each in found]
    if not any(name in each for each in found for name in CHOICE_TEXTS):
        known = f"{', '.join(CHOICE_TEXTS[:-1])} or {CHOICE_TEXTS[-1]}"
        message = f"found {shown_value(first)}, in which no field is called {known}."
        raise FieldTrouble("choices", message, "Rename the field that has the text.", kind="no text field")
    labels = [next((str(each[name]) for name in CHOICE_LABELS if each.get(name) is not None), "") for each in found]
    if any(labels) and not all(labels):
        raise _not_all_labelled(f"choice {labels.index('') + 1} of {len(labels)} has no label, but others have.")
    if in_order(texts) and all(labels) and not in_order(labels):
        # As in web forms, `label` is the text and `value` the label.
        texts, labels = list(labels), [str(each) for each in texts]
    if in_order(texts) and not any(labels) and (behind := _behind_letters(found)):
        texts, labels = behind, [str(each) for each in texts]
    flags = [next((value for name, value in each.items() if name in CHOICE_FLAGS), None) for each in found]
    called = labels if all(labels) else None
    right = [(called or LABELS)[at] for at, flag in enumerate(flags[: len(LABELS)]) if flag]
    # If one choice is flagged as right, a choice without a flag is wrong.
    are_flags = bool(right) and all(flag in (True, False, None) for flag in flags)
    return Choices(texts, called, right if are_flags else None)


def _not_all_labelled(message: str) -> FieldTrouble:
    """Return the error for choices of which some have labels: a letter could mean the label or the position."""
    return FieldTrouble("choices", message, "Label all choices of the question, or none.", kind="not all are labelled")


def _behind_letters(found: Sequence[Mapping[str, Any]]) -> list[str] | None:
    """The one text of each object beside the first of `_TEXTS_OR_LETTERS` that it has; None: not all have just one."""
    texts: list[str] = []
    for each in found:
        letter = next((name for name in CHOICE_TEXTS if name in each), None)
        written = {name: value for name, value in each.items() if isinstance(value, str)}
        others = [value for name, value in written.items() if name != letter and name not in CHOICE_FLAGS]
        if letter not in _TEXTS_OR_LETTERS or len(others) != 1:
            return None
        texts += others
    return texts


def _are_letters(labels: Sequence[str]) -> bool:
    """Whether these labels are letters, not numbers."""
    return all(map(str.isalpha, labels))


def in_order(found: Sequence[Any]) -> bool:
    """Whether these are exactly the labels in order: A, B, …, or consecutive numbers from 0 or 1."""
    words = [str(each).upper() for each in found]
    counted = ([str(at + first) for at in range(len(words))] for first in (0, 1))
    return words in (list(LABELS[: len(words)]), *counted)
