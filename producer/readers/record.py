"""The words that the readers share: a record as the file has it, and the row that it becomes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from contract.errors import QuestionFileError
from contract.question import Question

__all__ = ["FieldTrouble", "Record", "Records", "Row", "shown_value"]

#: Characters of a value that a message shows.
LONGEST_SHOWN = 60


class FieldTrouble(Exception):
    """One field of one record is wrong; where the record stands is added by the caller."""

    def __init__(self, field: str, message: str, hint: str = "", *, kind: str = "") -> None:
        super().__init__(message)
        self.field = field
        self.message = message
        self.hint = hint
        #: What troubles of this sort are counted as; the message itself where it names no values.
        self.kind = kind or message.rstrip(".")

    def at(self, path: str, line: int) -> QuestionFileError:
        """The same with its place."""
        return QuestionFileError(
            self.message, path=path, line=line, field=self.field or None, hint=self.hint, kind=self.kind
        )


class Record(NamedTuple):
    """One entry of a question file, before anybody asked what its fields mean."""

    #: 1-based position among the file's records.
    number: int
    #: 1-based line on which the record starts; in formats without lines, its number.
    line: int
    #: The entry as the file has it, for `rejected.jsonl`.
    raw: Any
    #: The entry by field name; None where there is no such thing.
    fields: Mapping[str, Any] | None = None
    #: Why the entry cannot even be taken apart.
    trouble: FieldTrouble | None = None
    #: Whether the format knows text only (CSV), so that a number arrives as its digits.
    untyped: bool = False
    #: What the file calls the entry, where it is an object keyed by ids.
    key: str | None = None
    #: The part of the file that the entry stands in (a subset, a split), where there are such.
    group: str | None = None
    #: What the file says of all its questions together.
    task: Mapping[str, str] = {}
    #: The file that the entry stands in, where the source is a folder of several.
    file: str = ""


#: Reads the records from the beginning, as often as it is called.
Records = Callable[[], Iterator[Record]]


class Row(NamedTuple):
    """One entry of a question file, understood (`question`) or not (`trouble`)."""

    number: int
    line: int
    raw: Any
    question: Question | None
    trouble: QuestionFileError | None = None
    #: Whether the question's id is a hash of its content, because the file names none.
    content_id: bool = False
    #: The file that the entry stands in, as messages name it.
    file: str = ""


def shown_value(value: object) -> str:
    """`value` as a message shows it: quoted, and cut where it would drown the message."""
    # A long value is cut before it is quoted: nobody waits for the repr of megabytes.
    text = repr(value[: LONGEST_SHOWN + 1] if isinstance(value, str | list) else value)
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}…"
