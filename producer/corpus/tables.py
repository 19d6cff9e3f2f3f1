"""CSV with its header on the first line, as records."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

from contract.errors import QuestionFileError
from producer.readers.csv import LARGEST_CELL
from producer.readers.record import FieldTrouble, Record
from producer.readers.text import text_of

__all__ = ["read_csv_table"]


def read_csv_table(path: Path, shown: str) -> Iterator[Record]:
    """Records of the file, every cell as text. A row with too many or too few cells is a record with its trouble."""
    csv.field_size_limit(LARGEST_CELL)
    reader = csv.reader(text_of(path, shown).lines(), strict=True)
    line = 1
    try:
        header = _header(next(reader, []), shown)
        number, line = 0, reader.line_num + 1
        for cells in reader:
            if cells:
                number += 1
                yield _record(number, line, cells, header)
            line = reader.line_num + 1
    except csv.Error as trouble:
        raise QuestionFileError(
            f"malformed CSV: {trouble}.",
            path=shown,
            line=line,
            hint="A cell with a comma, a quote or a line break stands in double quotes, quotes inside are doubled.",
        ) from None


def _header(cells: list[str], shown: str) -> list[str]:
    names = [name.strip() for name in cells]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise QuestionFileError(
            f"header: column {twice[0]!r} stands twice.", path=shown, line=1, hint="Give every column its own name."
        )
    return names


def _record(number: int, line: int, cells: list[str], header: list[str]) -> Record:
    if len(cells) != len(header):
        message = f"found {len(cells)} cells, expected {len(header)}."
        return Record(number, line, cells, trouble=FieldTrouble("", message, "Put a cell with a comma in quotes."))
    fields = dict(zip(header, cells, strict=True))
    return Record(number, line, fields, fields, untyped=True)
