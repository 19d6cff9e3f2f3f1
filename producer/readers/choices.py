"""The choices of a record, in whatever shape a file keeps them."""

from __future__ import annotations

import ast
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from contract.question import MAX_CHOICES, MIN_CHOICES
from producer.readers.inline import split_choices, split_list, without_mark
from producer.readers.jsonl import DECODER
from producer.readers.record import FieldTrouble, shown_value

__all__ = ["Choices", "as_text", "checked", "choices_of", "mixed", "no_list"]

_EXAMPLE = 'For example ["red", "blue"].'
_TEXTS = ("text", "content", "atext", "value", "choice", "option", "answer")
_LABELS = ("label", "letter", "aid", "key", "id")


class Choices(NamedTuple):
    """Texts, and what the file calls each of them; None: it does not say."""

    #: Not yet known to be texts (`checked`).
    texts: list[Any]
    labels: list[str] | None = None


def no_list(found: object) -> FieldTrouble:
    """What is wrong with `found` where a list of choices should be."""
    what = "missing" if found is None else f"found {shown_value(found)}"
    return FieldTrouble("choices", f"{what}, expected a list of texts.", _EXAMPLE, kind="no list")


def choices_of(found: object) -> Choices:
    """The choices in `found`. Raises FieldTrouble.

    A list of texts, or of objects with text and label; an object label → text, or {"text": [...], "label": [...]};
    or a text that holds such a list, or the choices one after the other: "(A) red (B) blue".
    """
    if isinstance(found, str):
        found = _in_text(found)
    if isinstance(found, Mapping):
        found = _in_object(found)
    if isinstance(found, Choices):
        return found
    if not isinstance(found, list | tuple):
        raise no_list(found)
    if found and all(isinstance(each, Mapping) for each in found):
        return _of_objects(found)
    return Choices(_unmarked(found))


def checked(texts: Sequence[Any]) -> list[str]:
    """`texts`, if they are two to 26 texts. Raises FieldTrouble."""
    if not MIN_CHOICES <= len(texts) <= MAX_CHOICES:
        message = f"found {len(texts)}, expected {MIN_CHOICES} to {MAX_CHOICES}."
        raise FieldTrouble("choices", message, "Correct the list, or take the row out.", kind="too many or too few")
    for each in texts:
        if not isinstance(each, str) or not each.strip():
            hint = "Write every choice as text, in quotes."
            message = f"choice {texts.index(each)} is {shown_value(each)}, expected text."
            raise FieldTrouble("choices", message, hint, kind="a choice is no text")
    return list(texts)


def mixed(question: str, texts: Sequence[Any]) -> list[str]:
    """The choices in an order that says nothing of which is right: that of a hash over question and text.

    For files that keep the right choice apart, or always first. The order is the same wherever the question stands.
    """
    return sorted(
        checked(texts),
        key=lambda text: hashlib.sha256(f"{question}\x1f{text}".encode(errors="surrogatepass")).digest(),
    )


def as_text(each: Any) -> Any:
    """A number as text; anything else as it is."""
    return str(each) if isinstance(each, int | float) and not isinstance(each, bool) else each


def _unmarked(texts: Sequence[Any]) -> list[Any]:
    """Texts without their "(A)", if all have one; numbers as text."""
    bare = [without_mark(each, at) if isinstance(each, str) else each for at, each in enumerate(texts)]
    if all(isinstance(each, str) and each != full for each, full in zip(bare, texts, strict=True)):
        return bare
    return [as_text(each) for each in texts]


def _in_text(found: str) -> object:
    stripped = found.strip()
    if stripped[:1] in {"[", "{"}:
        return _decoded(stripped)
    inside = split_list(stripped) or split_choices(f"?\n{stripped}")
    return Choices(list(inside.choices), list(inside.labels)) if inside else found


def _decoded(cell: str) -> object:
    """JSON; or a list as Python or numpy print it."""
    try:
        return DECODER.decode(cell)
    except (ValueError, RecursionError) as trouble:
        printed = _printed(cell)
        if printed is not None:
            return printed
        what = trouble.msg if isinstance(trouble, json.JSONDecodeError) else str(trouble)
        where = f" at its character {trouble.pos + 1}" if isinstance(trouble, json.JSONDecodeError) else ""
        message = f"malformed JSON in the cell: {what}{where}."
        raise FieldTrouble("choices", message, _EXAMPLE, kind="malformed JSON in a cell") from None


#: Between two texts of a list as numpy prints it: no comma, but a new line.
_NUMPY_GAP = re.compile(r"(?<=['\"])\n\s*(?=['\"])")


def _printed(cell: str) -> object:
    try:
        found = ast.literal_eval(_NUMPY_GAP.sub(", ", cell))
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return None
    return found if isinstance(found, list | dict) else None


def _in_object(found: Mapping[Any, Any]) -> object:
    texts, labels = (next((found[each] for each in names if each in found), None) for names in (_TEXTS, _LABELS))
    if isinstance(texts, list | tuple):
        marks = [str(each) for each in labels] if isinstance(labels, list | tuple) else None
        return Choices(list(texts), marks if marks and len(marks) == len(texts) else None)
    filled = {str(label): text for label, text in found.items() if text is not None}
    return Choices([as_text(each) for each in filled.values()], list(filled))


def _of_objects(found: Sequence[Mapping[str, Any]]) -> Choices:
    texts = [next((each[name] for name in _TEXTS if name in each), None) for each in found]
    labels = [next((str(each[name]) for name in _LABELS if name in each), "") for each in found]
    return Choices(texts, labels if all(labels) else None)
