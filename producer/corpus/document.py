"""A document of a corpus, and how a record says one."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, NamedTuple

from contract.errors import QuestionFileError, nearest
from producer.readers.record import FieldTrouble, Record, shown_value

__all__ = ["Document", "to_document"]

#: `_id` is BEIR's word, `contents` Pyserini's.
ID_FIELDS = ("id", "_id")
TEXT_FIELDS = ("text", "contents")


class Document(NamedTuple):
    """What a corpus holds, before it is cut into passages."""

    id: str
    text: str
    #: Where it lies, as the corpus says; may be empty.
    path: str
    #: Hash of the question that it was written for, as the corpus says; mostly empty.
    question_hash: str
    #: The file that it was read from, and the line (of a table the row) there, for messages.
    shown: str
    line: int | None


def to_document(record: Record, shown: str) -> Document:
    """The document that a record {id?, text, path?, question_hash?} says; any other field is left alone.

    Without an id it is called by the hash of its text. Raises QuestionFileError with line, field and remedy.
    """
    try:
        return _document(record, shown)
    except FieldTrouble as trouble:
        raise QuestionFileError(
            trouble.message, path=shown, line=record.line, field=trouble.field or None, hint=trouble.hint
        ) from None


def _document(record: Record, shown: str) -> Document:
    if record.trouble is not None:
        raise record.trouble
    if record.fields is None:
        raise FieldTrouble("", f"found {shown_value(record.raw)}, expected an object.", "Put fields around it.")
    text = _text(record.fields)
    return Document(
        id=_id(record.fields, text),
        text=text,
        path=_optional(record.fields, "path"),
        question_hash=_optional(record.fields, "question_hash"),
        shown=shown,
        line=record.line,
    )


def _text(fields: Mapping[str, Any]) -> str:
    name = next((each for each in TEXT_FIELDS if each in fields), None)
    if name is None:
        names = list(map(str, fields))
        found = f"found {', '.join(names)}" if names else "found no fields"
        hint = nearest("text", names) or f"Call the passage's text {TEXT_FIELDS[0]!r}."
        raise FieldTrouble(TEXT_FIELDS[0], f"missing; {found}.", hint)
    value = fields[name]
    if not isinstance(value, str):
        raise FieldTrouble(name, f"found {shown_value(value)}, expected text.", "Write the passage there, as text.")
    if not value.strip():
        raise FieldTrouble(name, "the passage is empty.", "Write its text there, or take the row out.")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise FieldTrouble(name, "half a surrogate pair stands in the text.", "Repair the \\u escapes.") from None
    return value.strip()


def _id(fields: Mapping[str, Any], text: str) -> str:
    name = next((each for each in ID_FIELDS if fields.get(each) not in (None, "")), None)
    if name is None:
        return hashlib.sha256(text.encode()).hexdigest()[:16]
    value = fields[name]
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str) or not value.strip():
        hint = "An id is text or a whole number; without one, the text's hash is taken."
        raise FieldTrouble(name, f"found {shown_value(value)}.", hint)
    return value


def _optional(fields: Mapping[str, Any], name: str) -> str:
    value = fields.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise FieldTrouble(name, f"found {shown_value(value)}, expected text.", "Correct it or leave it out.")
    return value
