"""Reading Parquet in batches, so that a file may be larger than memory. Errors give row numbers instead of lines."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from contract.errors import QuestionFileError, first_line
from producer.readers.record import FieldTrouble, Record

if TYPE_CHECKING:
    import pyarrow

__all__ = ["MAGIC", "read_parquet"]

#: The first bytes of a Parquet file.
MAGIC = b"PAR1"
_BATCH_ROWS = 1024
#: Raised for a value that Python cannot hold: text that is not UTF-8, a date too far away, an unknown time zone, a map
#: with a key that is there twice, or is a list.
_NO_VALUE = (ValueError, OverflowError, KeyError, TypeError)


def read_parquet(path: Path, shown: str) -> Iterator[Record]:
    """Yield the records of the file; a value that cannot be read does not affect other rows.

    Raises QuestionFileError if the file is damaged, or two columns have the same name.
    """
    import pyarrow
    import pyarrow.parquet

    try:
        # Unmapped, a whole group of rows is read into memory, and many files have only one.
        with pyarrow.parquet.ParquetFile(path, memory_map=True) as file:
            _refuse_columns_of_one_name(file.schema_arrow.names, shown)
            before = 0
            for batch in file.iter_batches(_BATCH_ROWS):
                yield from _records(batch, before)
                before += batch.num_rows
    except (pyarrow.ArrowException, OSError) as trouble:
        message = f"malformed Parquet, damaged or truncated: {first_line(trouble)}."
        raise QuestionFileError(message, path=shown, hint="Download or write the file again.") from None


def _refuse_columns_of_one_name(names: Sequence[str], shown: str) -> None:
    """Raise QuestionFileError for two columns of one name: only the last of them would be read."""
    twice = next((name for name, count in Counter(names).items() if count > 1), None)
    if twice is not None:
        message = f"there are two columns {twice!r}."
        raise QuestionFileError(message, path=shown, hint="Give each column a unique name.")


def _records(batch: pyarrow.RecordBatch, before: int) -> Iterator[Record]:
    try:
        rows = batch.to_pylist(maps_as_pydicts="strict")
    except _NO_VALUE:
        for at in range(batch.num_rows):
            yield _cell_by_cell(batch, at, before + at + 1)
    else:
        for number, row in enumerate(rows, start=before + 1):
            fields = _without_nan(row)
            yield Record(number, fields, fields)


def _cell_by_cell(batch: pyarrow.RecordBatch, at: int, number: int) -> Record:
    """Return the record in a row of a batch in which some row has a value that cannot be read."""
    fields: dict[str, Any] = {}
    trouble: FieldTrouble | None = None
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        try:
            fields[name] = column[at].as_py(maps_as_pydicts="strict")
        except _NO_VALUE as unread:
            message = f"cannot be read: {type(unread).__name__}: {first_line(unread)}."
            hint = "Write the file again with another value or type there, or without the column."
            trouble = trouble or FieldTrouble(name, message, hint, kind="a value that cannot be read")
    fields = _without_nan(fields)
    return Record(number, fields, None if trouble else fields, trouble)


def _without_nan(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields with None for NaN, by which NumPy says that a number is missing."""
    return {name: None if isinstance(value, float) and math.isnan(value) else value for name, value in fields.items()}
