"""Turning records into questions: check the parts that the layout extracts, resolve the answer, keep the rest."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from functools import lru_cache
from typing import Any

from pydantic import TypeAdapter, ValidationError

from contract.question import Question, content_id
from producer.beyond_json import in_text
from producer.readers.answer_fields import FIRST_OF_COLUMNS, Key, refuse_contradiction
from producer.readers.answers import right_labels
from producer.readers.choices import decoded
from producer.readers.field_names import INDEX_NAMES, PARTS, names_of, spelled
from producer.readers.layouts import OWN, Layout, is_question
from producer.readers.own_answers import IN_FILE, own_labels
from producer.readers.parts import Parts, Used
from producer.readers.record import FieldTrouble, Record, Row, shown_value
from producer.readers.shapes import extraction, place_of_questions

__all__ = ["parts_of", "to_row", "trouble_of"]

#: The validator itself: for every row of a file, `Question(…)` is a third slower.
_question_of: Callable[[dict[str, Any]], Question] = TypeAdapter(Question).validator.validate_python


def to_row(record: Record, layout: Layout, key: Key, shown: str) -> Row:
    """Return the row for `record`, with its question or its error. `shown` is the file's name in messages."""
    file = record.file or shown
    try:
        parts = key.applied_to(parts_of(record, layout))
        question = _question(record, parts, layout, key)
    except FieldTrouble as trouble:
        if layout is OWN and (trouble.field, trouble.kind) == ("question", "missing"):
            _say_where_questions_are(trouble, record)
        return Row(record.line, record.raw, None, trouble.at(file, record.line), file=file)
    return Row(record.line, record.raw, question, content_id=parts.id is None, file=file)


def _say_where_questions_are(trouble: FieldTrouble, record: Record) -> None:
    place = place_of_questions(record.fields, is_question)
    if place is None:
        return
    at = place.path
    if "[]" in at:
        trouble.hint = f"There are questions inside, at {at}: {extraction(place, in_rows=True)}"
    else:
        trouble.hint = (
            f"There is a question inside, at {at}: name its fields with --map question={at}.FIELD, and so on for"
            " choices and answer."
        )


def parts_of(record: Record, layout: Layout) -> Parts:
    """Return the parts of a record. Raises FieldTrouble."""
    fields = record.named()
    if record.untyped:
        fields = {name: cell or None for name, cell in fields.items()}
    names = names_of(tuple(fields))
    if layout is not OWN and not layout.needs <= names.spelled.keys():
        missing = min(layout.needs - names.spelled.keys())
        hint = f"Rows of this layout have the fields {', '.join(sorted(layout.needs))}."
        raise FieldTrouble(missing, f"missing; found {shown_value(', '.join(fields))}.", hint, kind="missing")
    parts = layout.parts(fields, names)
    if record.task and layout.name == "bigbench":
        parts = parts._replace(question=_with_task(parts.question, record.task))
    if parts.id.__class__ is not str or record.group:
        parts = parts._replace(id=_id(parts.id, record), subject=parts.subject or record.group)
    if parts.labels and parts.labels[0] in FIRST_OF_COLUMNS and _is_index_beside_columns(parts.used):
        # It may count from 0 all the same: the numbers in the columns' names do not decide it.
        parts = parts._replace(labels=None)
    return parts


def _is_index_beside_columns(used: Used) -> bool:
    return len(used.choices) > 1 and used.answer is not None and spelled(used.answer) in INDEX_NAMES


def _with_task(question: Any, task: Mapping[str, str]) -> Any:
    """Return the question after the prefix of its task; if both are empty, the description of the task."""
    if not isinstance(question, str):
        return question
    asked = "\n".join(filter(str.strip, (task.get("task_prefix", "").rstrip(), question)))
    return asked or task.get("description", "")


def _id(found: Any, record: Record) -> Any:
    """Return the record's id, or the key under which the file has it; with the group as prefix, if there are groups."""
    own = record.key if found is None else found
    if isinstance(own, int) and not isinstance(own, bool):
        own = str(own)
    return f"{record.group}-{own}" if record.group and isinstance(own, str) else own


def _question(record: Record, parts: Parts, layout: Layout, key: Key) -> Question:
    text = parts.question
    if not isinstance(text, str) or not text.strip():
        message = "missing." if text is None else f"found {shown_value(text)}, expected text."
        kind = "missing" if text is None else "not text"
        raise FieldTrouble("question", message, "Put the question's text there.", kind=kind)
    if parts.answer is None and record.fields is not None and not key.is_ruled_out:
        _refuse_look_alikes(tuple(record.fields), own=layout is OWN)
    right = _right(parts, layout, key)
    if key.beside or parts.flagged:
        refuse_contradiction(key, parts, right)
    subject = parts.subject.strip() if isinstance(parts.subject, str) else parts.subject
    more: dict[str, Any] = {}
    if parts.rest:
        more["metadata"] = _metadata(parts.rest, keep_nothing=layout is OWN and not record.untyped)
    if parts.gold_passages:
        more["gold_passages"] = parts.gold_passages
    if len(right) > 1:
        more["also_right"] = right[1:]
    try:
        return _question_of(
            {
                "id": content_id(text, parts.choices) if parts.id is None else parts.id,
                "question": text,
                "choices": tuple(parts.choices),
                "answer": right[0] if right else None,
                "subject": subject,
                "context": parts.context,
                **more,
            }
        )
    except ValidationError as trouble:
        raise trouble_of(trouble) from None
    except UnicodeEncodeError:
        hint = "Repair the \\u escapes."
        raise FieldTrouble("question", "the text contains half a surrogate pair.", hint) from None


def _right(parts: Parts, layout: Layout, key: Key) -> tuple[str, ...]:
    if layout is OWN:
        return own_labels(parts.answer, parts.choices, IN_FILE)
    return right_labels(parts.given(parts.answer), key.way)


def _metadata(rest: Mapping[str, Any], *, keep_nothing: bool) -> dict[str, Any]:
    """Return all other fields of the record; values that do not fit into a table cell become JSON."""
    kept = {str(name): value for name, value in rest.items() if name != "metadata"}
    for name, value in _explicit(rest.get("metadata")).items():
        if name in kept:
            raise FieldTrouble("metadata", f"{name!r} is both in metadata and outside it.", "Keep one of the two.")
        kept[name] = value
    return {name: _one_cell(value) for name, value in kept.items() if keep_nothing or value is not None}


def _explicit(found: Any) -> Mapping[str, Any]:
    """Return the object in the field `metadata`; in a table's cell, as JSON or as Python prints it."""
    hint = 'For example {"level": 3}.'
    if isinstance(found, str) and found.strip().startswith("{"):
        found = decoded(found.strip(), "metadata", hint)
    if found is not None and not isinstance(found, dict):
        raise FieldTrouble("metadata", f"found {shown_value(found)}, expected an object.", hint, kind="not an object")
    return found or {}


def _one_cell(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, bytes):
        return in_text(value)
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=in_text)


@lru_cache(maxsize=256)
def _refuse_look_alikes(names: tuple[str, ...], *, own: bool) -> None:
    """Raise FieldTrouble for a misspelt `answer`: the question would silently have no key, and the run no accuracy."""
    wanted = {"answer"} if own else {*PARTS["answer"]}
    if any(spelled(name) in wanted for name in names):
        return
    known = {each for part, spellings in PARTS.items() if part != "answer" for each in spellings}
    others = {name.lower(): name for name in names if spelled(name) not in known}
    found = get_close_matches("answer", list(others), n=1, cutoff=0.6)
    if found:
        raise FieldTrouble(
            "answer",
            f"missing, but there is {others[found[0]]!r}.",
            f"Rename it to answer, or use --map answer={others[found[0]]}; without a key, add an empty answer field.",
            kind="missing, but there is a similar name",
        )


def trouble_of(trouble: ValidationError) -> FieldTrouble:
    """Return the first validation error, with its field."""
    first = trouble.errors()[0]
    field = str(first["loc"][0]) if first["loc"] else ""
    if field == "id" and first["type"] in {"string_too_short", "string_too_long", "string_pattern_mismatch"}:
        hint = (
            "An id has 1 to 200 characters and no control characters. Without one (--map id= ignores a file's), a hash"
            " of the content is used."
        )
        return FieldTrouble(field, f"found {shown_value(first['input'])}.", hint, kind="cannot be an id")
    if first["type"] == "string_pattern_mismatch":  # of any other field: it has nothing but white space
        return FieldTrouble(
            field, f"found {shown_value(first['input'])}, expected text.", "Write some.", kind="not text"
        )
    message = first["msg"].removeprefix("Value error, ")
    return FieldTrouble(
        field, f"{message}, found {shown_value(first['input'])}.", "Correct it or remove it.", kind=message
    )
