"""A document of a corpus, and how a record says one."""

from __future__ import annotations

import hashlib
from collections.abc import Container, Mapping, Sequence
from typing import Any, NamedTuple

from contract.errors import nearest
from producer.readers.record import FieldTrouble, Record, shown_value

__all__ = ["PARTS", "TEXT_FIELDS", "Document", "parts_of", "to_document"]

#: `_id` is BEIR's word, `contents` Pyserini's.
ID_FIELDS = ("id", "_id")
TEXT_FIELDS = ("text", "contents")
#: What a record may say of a document; the text alone must be there.
PARTS = ("id", "text", "path", "question_hash")
#: Between the fields of which a text is made: a title stands on a line of its own.
BETWEEN = "\n"


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


def parts_of(mapping: Mapping[str, Sequence[str]], fields: Container[str]) -> dict[str, Sequence[str]]:
    """Part of a document → the fields that hold it, of a record that has `fields`."""
    text = next((name for name in TEXT_FIELDS if name in fields), TEXT_FIELDS[0])
    return {"id": ID_FIELDS, "text": (text,), "path": ("path",), "question_hash": ("question_hash",), **mapping}


def to_document(record: Record, shown: str, mapping: Mapping[str, Sequence[str]]) -> Document:
    """The document that a record {id?, text, path?, question_hash?} says; any other field is left alone.

    `mapping` are the fields of a part that goes by other names; a text of several is what is in them, line by line.
    Without an id it is called by the hash of its text. Raises QuestionFileError with line, field and remedy.
    """
    try:
        return _document(record, shown, mapping)
    except FieldTrouble as trouble:
        raise trouble.at(shown, record.line) from None


def _document(record: Record, shown: str, mapping: Mapping[str, Sequence[str]]) -> Document:
    if record.trouble is not None:
        raise record.trouble
    if record.fields is None:
        message = f"found {shown_value(record.raw)}, expected an object."
        raise FieldTrouble("", message, "Put fields around it.", kind="no object")
    parts = parts_of(mapping, record.fields)
    text = _text(record.fields, parts["text"])
    return Document(
        id=_id(record.fields, parts["id"], text),
        text=text,
        path=_optional(record.fields, parts["path"]),
        question_hash=_optional(record.fields, parts["question_hash"]),
        shown=shown,
        line=record.line,
    )


def _text(fields: Mapping[str, Any], wanted: Sequence[str]) -> str:
    there = [name for name in wanted if name in fields]
    if not there:
        names = list(map(str, fields))
        found = f"found {', '.join(names)}" if names else "found no fields"
        hint = nearest(wanted[-1], names) or f"Call the passage's text {wanted[-1]!r}, or say --map text=FIELD."
        raise FieldTrouble(wanted[-1], f"missing; {found}.", hint, kind="missing")
    # A record may well be without one of several, say its title.
    if len(wanted) > 1:
        there = [name for name in there if fields[name] is not None] or there[-1:]
    parts = [_said(name, fields[name]) for name in there]
    text = BETWEEN.join(filter(None, parts))
    if not text:
        hint = "Write its text there, or take the row out."
        raise FieldTrouble(there[-1], "the passage is empty.", hint)
    return text


def _said(name: str, value: Any) -> str:
    if not isinstance(value, str):
        hint = "Write the passage there, as text."
        raise FieldTrouble(name, f"found {shown_value(value)}, expected text.", hint, kind="no text")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise FieldTrouble(name, "half a surrogate pair stands in the text.", "Repair the \\u escapes.") from None
    return value.strip()


def _id(fields: Mapping[str, Any], wanted: Sequence[str], text: str) -> str:
    name = next((each for each in wanted if fields.get(each) not in (None, "")), None)
    if name is None:
        return hashlib.sha256(text.encode()).hexdigest()[:16]
    value = fields[name]
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str) or not value.strip():
        hint = "An id is text or a whole number; without one, the text's hash is taken."
        raise FieldTrouble(name, f"found {shown_value(value)}.", hint, kind="cannot be an id")
    return value


def _optional(fields: Mapping[str, Any], wanted: Sequence[str]) -> str:
    name = next((each for each in wanted if fields.get(each) is not None), None)
    if name is None:
        return ""
    value = fields[name]
    if not isinstance(value, str):
        hint = "Correct it or leave it out."
        raise FieldTrouble(name, f"found {shown_value(value)}, expected text.", hint, kind="no text")
    return value
