"""Records to questions. A `Layout` says how one family of files names things; ours is the one they are turned into:

{id?, question, choices, answer?, subject?, context?, gold_passages?, metadata?}

and any other field, which is kept as metadata.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache
from typing import Any

from pydantic import ValidationError

from contract.errors import QuestionFileError
from contract.question import MAX_CHOICES, MIN_CHOICES, Question, content_id
from producer.readers.answers import answer_label
from producer.readers.record import FieldTrouble, Record, Row, shown_value

__all__ = ["LAYOUTS", "OWN", "Layout", "layout_of", "to_row"]

OWN_FIELDS = frozenset({"id", "question", "choices", "answer", "subject", "context", "gold_passages", "metadata"})


@dataclass(frozen=True, slots=True)
class Layout:
    """How a family of files names a question's parts."""

    name: str
    #: Fields that a record of this layout has.
    needs: frozenset[str]
    #: The record in our own layout. May raise FieldTrouble.
    convert: Callable[[Mapping[str, Any]], Mapping[str, Any]]


OWN = Layout("own", frozenset({"question", "choices"}), lambda fields: fields)
#: Every known layout, the first that fits is taken.
LAYOUTS: tuple[Layout, ...] = (OWN,)


def layout_of(fields: Mapping[str, Any]) -> Layout:
    """The layout of a record with these fields; our own where none fits, so that messages speak of our fields."""
    for layout in LAYOUTS:
        if layout.needs <= fields.keys():
            return layout
    return OWN


def to_row(record: Record, shown: str) -> Row:
    """What `record` says, or why it says nothing. `shown` is the file's name in messages."""
    try:
        return Row(record.number, record.line, record.raw, _question(record))
    except FieldTrouble as trouble:
        error = QuestionFileError(
            trouble.message, path=shown, line=record.line, field=trouble.field or None, hint=trouble.hint
        )
        return Row(record.number, record.line, record.raw, None, error)


def _question(record: Record) -> Question:
    if record.trouble is not None:
        raise record.trouble
    if record.fields is None:
        raise FieldTrouble("", f"found {shown_value(record.raw)}, expected an object.", "Put fields around it.")
    own = layout_of(record.fields).convert(record.fields)
    text, choices = _text(own), _choices(own)
    if "answer" not in own:
        _refuse_look_alikes(tuple(own))
    answer = answer_label(own.get("answer"), choices, untyped=record.untyped)
    try:
        return Question(
            id=_id(own, text, choices),
            question=text,
            choices=tuple(choices),
            answer=answer,
            subject=own.get("subject"),
            context=own.get("context"),
            gold_passages=own.get("gold_passages") or (),
            metadata=_metadata(own),
        )
    except ValidationError as trouble:
        raise _from_pydantic(trouble) from None
    except UnicodeEncodeError:
        raise FieldTrouble("question", "half a surrogate pair stands in the text.", "Repair the \\u escapes.") from None


def _text(own: Mapping[str, Any]) -> str:
    found = own.get("question")
    if found is None:
        names = ", ".join(map(str, own)) or "no fields"
        raise FieldTrouble("question", f"missing; found {shown_value(names)}.", "Every row needs its question's text.")
    if not isinstance(found, str) or not found.strip():
        raise FieldTrouble("question", f"found {shown_value(found)}, expected text.", "Write the question there.")
    return found


def _choices(own: Mapping[str, Any]) -> list[str]:
    found = own.get("choices")
    if not isinstance(found, list):
        what = "missing" if found is None else f"found {shown_value(found)}"
        raise FieldTrouble("choices", f"{what}, expected a list of texts.", 'For example ["red", "blue"].')
    if not MIN_CHOICES <= len(found) <= MAX_CHOICES:
        raise FieldTrouble(
            "choices",
            f"found {len(found)}, expected {MIN_CHOICES} to {MAX_CHOICES}.",
            "Correct the list, or take the row out.",
        )
    for position, each in enumerate(found):
        if not isinstance(each, str) or not each.strip():
            hint = "Write every choice as text, in quotes."
            raise FieldTrouble("choices", f"choice {position} is {shown_value(each)}, expected text.", hint)
    return found


def _id(own: Mapping[str, Any], text: str, choices: list[str]) -> Any:
    found = own.get("id")
    if found is None:
        return content_id(text, choices)
    return str(found) if isinstance(found, int) and not isinstance(found, bool) else found


def _metadata(own: Mapping[str, Any]) -> dict[str, Any]:
    """Everything else that the record says; what does not fit into one cell becomes its JSON."""
    explicit = own.get("metadata")
    if explicit is not None and not isinstance(explicit, dict):
        raise FieldTrouble(
            "metadata", f"found {shown_value(explicit)}, expected an object.", 'For example {"level": 3}.'
        )
    kept = {str(name): value for name, value in own.items() if name not in OWN_FIELDS}
    for name, value in (explicit or {}).items():
        if name in kept:
            raise FieldTrouble("metadata", f"{name!r} stands in metadata and beside it.", "Keep one of the two.")
        kept[name] = value
    return {name: _one_cell(value) for name, value in kept.items()}


def _one_cell(value: Any) -> Any:
    if isinstance(value, list | dict):
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return value


@lru_cache(maxsize=256)
def _refuse_look_alikes(names: tuple[str, ...]) -> None:
    """A misspelt `answer` would leave the question without a key, and the run without an accuracy, in silence."""
    others = {name.lower(): name for name in names if name not in OWN_FIELDS}
    found = get_close_matches("answer", list(others), n=1, cutoff=0.6)
    if found:
        raise FieldTrouble(
            "answer",
            f"missing, but there is {others[found[0]]!r}.",
            "Call it answer; where no key is known, write an empty answer (null in JSON).",
        )


def _from_pydantic(trouble: ValidationError) -> FieldTrouble:
    first = trouble.errors()[0]
    field = str(first["loc"][0]) if first["loc"] else ""
    if field == "id" and first["type"] in {"string_too_short", "string_too_long", "string_pattern_mismatch"}:
        hint = "An id is 1 to 200 characters without control characters; without one, the content's hash is taken."
        return FieldTrouble(field, f"found {shown_value(first['input'])}.", hint)
    message = first["msg"].removeprefix("Value error, ")
    return FieldTrouble(field, f"{message}, found {shown_value(first['input'])}.", "Correct it or leave it out.")
