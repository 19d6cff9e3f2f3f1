"""Types shared by the readers: the record as read from a file, and the row that it becomes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from typing import Any, NamedTuple

from contract.errors import QuestionFileError
from contract.question import Question

__all__ = ["FieldTrouble", "Record", "Records", "Row", "head_of", "shown_value"]

#: Maximum number of characters of a value shown in a message.
LONGEST_SHOWN = 60


class FieldTrouble(Exception):
    """One field of a record is invalid; the caller adds the record's file and line."""

    def __init__(self, field: str, message: str, hint: str, *, kind: str = "", place: int = 0) -> None:
        super().__init__(message)
        self.field = field
        #: Of several records that were looked at together, the position of the one that the message is about.
        self.place = place
        self.message = message
        self.hint = hint
        #: The category under which such errors are counted; by default the message, if it contains no values.
        self.kind = kind or message.rstrip(".")

    def at(self, path: str, line: int) -> QuestionFileError:
        """Return the error with its file and line."""
        return QuestionFileError(
            self.message, path=path, line=line, field=self.field or None, hint=self.hint, kind=self.kind
        )


class Record(NamedTuple):
    """One entry of a question file, before its fields are interpreted."""

    #: 1-based line on which the record starts; in formats without lines, its position among the records.
    line: int
    #: The entry as read, for `rejected.jsonl`.
    raw: Any
    #: The entry by field name; None if it has no fields.
    fields: Mapping[str, Any] | None = None
    #: Why the entry could not be parsed.
    trouble: FieldTrouble | None = None
    #: Whether the format has only text values (CSV), so that numbers arrive as strings.
    untyped: bool = False
    #: The entry's key, if the file is an object keyed by id.
    key: str | None = None
    #: The part of the file (subset, split) that the entry belongs to, if there are any.
    group: str | None = None
    #: Descriptions that apply to all questions of the file.
    task: Mapping[str, str] = {}
    #: The file that contains the entry, if the source is a folder of several.
    file: str = ""

    def named(self) -> Mapping[str, Any]:
        """Return the entry by field name. Raises FieldTrouble if it could not be parsed or has no fields."""
        if self.trouble is not None:
            raise self.trouble
        if self.fields is None:
            raise self._no_fields()
        return self.fields

    def _no_fields(self) -> FieldTrouble:
        found, where, hint = self.raw, "", "Write it as an object with named fields."
        if self.key is not None:
            found, where = self.raw[self.key], f" under {shown_value(self.key)}"
        if where and isinstance(found, list):
            hint = "If this list has the entries, write it to a file of its own."
        return FieldTrouble("", f"found {shown_value(found)}{where}, expected an object.", hint, kind="not an object")


#: Reads the records from the beginning each time it is called.
Records = Callable[[], Iterator[Record]]


def head_of(records: Records, most: int) -> list[Record]:
    """Return the first records, up to the first fatal error, which is raised again when the rows are read."""
    head: list[Record] = []
    with suppress(QuestionFileError):
        head.extend(islice(records(), most))
    return head


class Row(NamedTuple):
    """One entry of a question file: a valid question (`question`) or an error (`trouble`)."""

    line: int
    raw: Any
    question: Question | None
    trouble: QuestionFileError | None = None
    #: Whether the question's id is a hash of its content because the file gives none.
    content_id: bool = False
    #: The file that contains the entry, as shown in messages.
    file: str = ""


def shown_value(value: object) -> str:
    """Return `value` quoted for a message, truncated if it is long."""
    # Truncate a long value before quoting it, to avoid building the repr of megabytes.
    text = repr(value[: LONGEST_SHOWN + 1] if isinstance(value, str | bytes | list) else value)
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}…"
