"""Reading CSV and similar tables, row by row. An empty cell means no value; rows with only empty cells are skipped."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence

from contract.errors import QuestionFileError
from producer.readers.csv_dialect import Dialect, lines_of, reader_of
from producer.readers.record import FieldTrouble, Record
from producer.readers.text import Text

__all__ = ["read_csv"]

_SPACE_AND_QUOTE = re.compile(' +"')


def read_csv(text: Text, dialect: Dialect) -> Iterator[Record]:
    """Yield the records of the file; one with an error for a row that is malformed or has the wrong number of cells.

    Raises QuestionFileError for a quote that is never closed, as what follows cannot be divided into rows.
    """
    twice = sorted({name for name in dialect.names if name and dialect.names.count(name) > 1})
    if twice:
        message = f"header: there are two columns {twice[0]!r}."
        raise QuestionFileError(message, path=text.shown, line=1, hint="Give each column a unique name.")
    lines = _Remembering(lines_of(text))
    reader = reader_of(lines, dialect)
    if dialect.header:
        # Skip blank rows before the header, as `dialect_of` does.
        next(filter(any, reader), None)
    while True:
        line = reader.line_num + 1
        lines.forget()
        try:
            cells = next(reader, None)
        except csv.Error as trouble:
            if lines.ended:
                raise _never_closed(text, line, trouble) from None
            content = lines.content()
            yield Record(line, content, trouble=_malformed(trouble, line, content, dialect))
            continue
        if cells is None:
            return
        # Spreadsheets export trailing rows of empty cells.
        if any(cells):
            yield _record(line, cells, dialect)


class _Remembering:
    """Iterates over lines and keeps those of the current row for its error message."""

    def __init__(self, lines: Iterator[str]) -> None:
        self._lines = lines
        self._kept: list[str] = []
        self.ended = False

    def __iter__(self) -> _Remembering:
        return self

    def __next__(self) -> str:
        try:
            line = next(self._lines)
        except StopIteration:
            self.ended = True
            raise
        self._kept.append(line)
        return line

    def forget(self) -> None:
        self._kept.clear()

    def content(self) -> str:
        return "".join(self._kept).rstrip("\r\n")


def _never_closed(text: Text, line: int, trouble: csv.Error) -> QuestionFileError:
    return QuestionFileError(
        f"malformed CSV: a quote is opened here and never closed ({trouble}).",
        path=text.shown,
        line=line,
        hint="Double the quotes inside a quoted cell, and close the cell with a quote.",
    )


def _malformed(trouble: csv.Error, line: int, content: str, dialect: Dialect) -> FieldTrouble:
    delimiter = _delimiter_in_words(dialect.delimiter)
    hint = f"Put a cell with {delimiter}, a quote or a line break in double quotes, and double the quotes inside it."
    stray = _stray_quote(content, dialect)
    if stray is None:
        return FieldTrouble("", f"malformed CSV: {trouble}.", hint)
    *above, before = content[:stray].split("\n")
    after, *_ = content[stray:].splitlines()
    where = f"column {len(before) + 1}" + (f" of line {line + len(above)}" if above else "")
    around = f"{before[-15:]}{after[:15]}"
    message = f"malformed CSV: the quote at {where} (…{around}…) is inside a quoted cell and not doubled."
    return FieldTrouble("", message, hint, kind="malformed CSV: a quote inside a quoted cell is not doubled")


def _stray_quote(content: str, dialect: Dialect) -> int | None:
    """Return the position of the first quote inside a quoted cell that neither closes it nor is doubled."""
    quoted, starts, at = False, True, 0
    while at < len(content):
        if content[at] == '"':
            after = content[at + 1 : at + 2]
            if not quoted:
                quoted = starts
            elif after == '"':
                at += 1
            elif after in ("", dialect.delimiter, "\r", "\n"):
                quoted = False
            else:
                return at
        starts = content[at] == dialect.delimiter or (starts and dialect.spaced and content[at] == " ")
        at += 1
    return None


def _delimiter_in_words(delimiter: str) -> str:
    """Return the delimiter with its article, for messages."""
    return {",": "a comma", ";": "a semicolon", "\t": "a tab"}.get(delimiter, repr(delimiter))


def _wrong_number_of_cells(cells: Sequence[str], names: Sequence[str], dialect: Dialect) -> FieldTrouble:
    message = f"found {len(cells)} cells, expected {len(names)}."
    if len(cells) < len(names):
        hint = f"Complete the row: an empty cell is followed by {_delimiter_in_words(dialect.delimiter)}, too."
        return FieldTrouble("", message, hint, kind="too few cells")
    hint = f"Put a cell with {_delimiter_in_words(dialect.delimiter)} in double quotes."
    if any(map(_SPACE_AND_QUOTE.match, cells)):
        hint = "Remove the space in front of a quote that begins a cell."
    return FieldTrouble("", message, hint, kind="too many cells")


def _record(line: int, cells: list[str], dialect: Dialect) -> Record:
    names = dialect.names
    if len(cells) != len(names):
        return Record(line, cells, trouble=_wrong_number_of_cells(cells, names, dialect))
    raw = {name or f"column {at}": cell for at, (name, cell) in enumerate(zip(names, cells, strict=True), start=1)}
    return Record(line, raw, raw, untyped=True)
