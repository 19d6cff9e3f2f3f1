"""Reading Parquet in batches, so that a file may be larger than memory. Errors give row numbers instead of lines."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from contract.errors import QuestionFileError
from producer.readers.record import Record

__all__ = ["MAGIC", "read_parquet"]

#: The first bytes of a Parquet file.
MAGIC = b"PAR1"
_BATCH_ROWS = 1024


def read_parquet(path: Path, shown: str) -> Iterator[Record]:
    """Yield the records of the file. Raises QuestionFileError if it is damaged."""
    import pyarrow
    import pyarrow.parquet

    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            number = 0
            for batch in file.iter_batches(_BATCH_ROWS):
                for fields in batch.to_pylist():
                    number += 1
                    yield Record(number, fields, fields)
    except (pyarrow.ArrowException, OSError) as trouble:
        message = f"malformed Parquet, damaged or truncated: {trouble}."
        raise QuestionFileError(message, path=shown, hint="Download or write the file again.") from None
