"""The words that the readers share: a record as the file has it, and the row that it becomes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from contract.errors import QuestionFileError
from contract.question import Question

__all__ = ["FieldTrouble", "Record", "Row", "shown_value"]


class FieldTrouble(Exception):
    """One field of one record is wrong; where the record stands is added by the caller."""

    def __init__(self, field: str, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.field = field
        self.message = message
        self.hint = hint


class Record(NamedTuple):
    """One entry of a question file, before anybody asked what its fields mean."""

    #: 1-based position among the file's records.
    number: int
    #: 1-based line on which the record starts.
    line: int
    #: The entry as the file has it, for `rejected.jsonl`.
    raw: Any
    #: The entry by field name; None where there is no such thing.
    fields: Mapping[str, Any] | None = None
    #: Why the entry cannot even be taken apart.
    trouble: FieldTrouble | None = None
    #: Whether the format knows text only (CSV), so that a number arrives as its digits.
    untyped: bool = False


class Row(NamedTuple):
    """One entry of a question file, understood (`question`) or not (`trouble`)."""

    number: int
    line: int
    raw: Any
    question: Question | None
    trouble: QuestionFileError | None = None


def shown_value(value: object, longest: int = 60) -> str:
    """`value` as a message shows it: quoted, and cut where it would drown the message."""
    text = repr(value)
    return text if len(text) <= longest else f"{text[:longest]}…"
