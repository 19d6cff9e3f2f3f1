"""A document of a corpus, and its extraction from a record."""

from __future__ import annotations

import hashlib
from collections.abc import Container, Mapping, Sequence
from typing import Any, NamedTuple

from contract.errors import nearest
from producer.readers.record import FieldTrouble, Record, shown_value

__all__ = ["PARTS", "TEXT_FIELDS", "Document", "parts_of", "to_document"]

#: `_id` is BEIR's name, `contents` is Pyserini's.
ID_FIELDS = ("id", "_id")
TEXT_FIELDS = ("text", "contents")
#: The parts of a document that a record may have; only the text is required.
PARTS = ("id", "text", "path", "question_hash")
#: Separator of the fields that make up a text: a title is on a separate line.
BETWEEN = "\n"


class Document(NamedTuple):
    """A document, before it is cut into passages."""

    id: str
    text: str
    #: Its path according to the corpus; may be empty.
    path: str
    #: Hash of the question for which it was written, according to the corpus; usually empty.
    question_hash: str
    #: The file from which it was read, and its line (in Parquet, its row), for messages.
    shown: str
    line: int | None


def parts_of(mapping: Mapping[str, Sequence[str]], fields: Container[str]) -> dict[str, Sequence[str]]:
    """Return part of a document → its fields, for a record that has `fields`."""
    text = next((name for name in TEXT_FIELDS if name in fields), TEXT_FIELDS[0])
    return {"id": ID_FIELDS, "text": (text,), "path": ("path",), "question_hash": ("question_hash",), **mapping}


def to_document(record: Record, shown: str, mapping: Mapping[str, Sequence[str]]) -> Document:
    """Return the document in a record {id?, text, path?, question_hash?}; other fields are ignored.

    `mapping` gives the fields of parts with other names; a text of several fields is joined line by line. If there is
    no id, the record's key or a hash of the text is used. Raises QuestionFileError with line, field and remedy.
    """
    try:
        return _document(record, shown, mapping)
    except FieldTrouble as trouble:
        raise trouble.at(shown, record.line) from None


def _document(record: Record, shown: str, mapping: Mapping[str, Sequence[str]]) -> Document:
    fields = record.named()
    parts = parts_of(mapping, fields)
    text = _text(fields, parts["text"])
    return Document(
        id=_id(fields, parts["id"], record.key) or _hash(text),
        text=text,
        path=_optional(fields, parts["path"]),
        question_hash=_optional(fields, parts["question_hash"]),
        shown=shown,
        line=record.line,
    )


def _text(fields: Mapping[str, Any], wanted: Sequence[str]) -> str:
    there = [name for name in wanted if name in fields]
    if not there:
        names = list(map(str, fields))
        found = f"found {', '.join(names)}" if names else "found no fields"
        hint = nearest(wanted[-1], names) or f"Put the passage's text into {wanted[-1]!r}, or use --map text=FIELD."
        raise FieldTrouble(wanted[-1], f"missing; {found}.", hint, kind="missing")
    # A record may lack some of several fields, such as the title.
    if len(wanted) > 1:
        there = [name for name in there if fields[name] is not None] or there[-1:]
    parts = [_text_in(name, fields[name]) for name in there]
    text = BETWEEN.join(filter(None, parts))
    if not text:
        hint = "Add its text, or remove the row."
        raise FieldTrouble(there[-1], "the passage is empty.", hint)
    return text


def _text_in(name: str, value: Any) -> str:
    if not isinstance(value, str):
        hint = "Put the passage there, as text."
        raise FieldTrouble(name, f"found {shown_value(value)}, expected text.", hint, kind="not text")
    return _encodable(name, value).strip()


def _encodable(name: str, value: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise FieldTrouble(name, "the text contains half a surrogate pair.", "Repair the \\u escapes.") from None
    return value


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _id(fields: Mapping[str, Any], wanted: Sequence[str], key: str | None) -> str:
    """Return the id that the fields give, else the record's key; empty if there is neither."""
    given = next((each for each in wanted if fields.get(each) not in (None, "")), None)
    name, value = (wanted[0], key or "") if given is None else (given, fields[given])
    if value == "":
        return ""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str) or not value.strip():
        hint = "An id is text or a whole number; without one, a hash of the text is used."
        raise FieldTrouble(name, f"found {shown_value(value)}.", hint, kind="cannot be an id")
    return _encodable(name, value)


def _optional(fields: Mapping[str, Any], wanted: Sequence[str]) -> str:
    name = next((each for each in wanted if fields.get(each) is not None), None)
    if name is None:
        return ""
    value = fields[name]
    if not isinstance(value, str):
        hint = "Correct it or remove it."
        raise FieldTrouble(name, f"found {shown_value(value)}, expected text.", hint, kind="not text")
    return _encodable(name, value)
