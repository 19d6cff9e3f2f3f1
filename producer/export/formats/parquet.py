"""results.parquet: the columns of results.csv, with types.

JSON cells of the CSV are maps or lists here, and `settled_at` is a timestamp in UTC. Only `metadata` is still JSON, as
its values have no common type. Texts are written unchanged, without the CSV's protection against formulas. Arrow,
DuckDB and Polars read maps and lists natively; pandas shows a map as pairs.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from contract.ledger import Run
from producer.export.columns import COLUMNS, Kind, Values
from producer.export.files import Drafts
from producer.export.formats.base import Sink
from producer.export.parts import Part

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["parquet_rows"]

#: Rows per row group: at most tens of megabytes in memory, and still large enough to compress well.
ROWS_PER_GROUP = 4096


@contextmanager
def parquet_rows(drafts: Drafts, directory: Path, run: Run) -> Iterator[Sink]:
    """Write one row per question, in row groups of a few thousand."""
    import pyarrow as pa  # imported late: no other command needs it, and it takes a tenth of a second
    import pyarrow.parquet as pq

    path, schema = directory / "results.parquet", _schema()
    pending: list[Values] = [[] for _ in COLUMNS]
    with pq.ParquetWriter(drafts.binary(path), schema, compression="zstd") as writer:

        def write_group() -> None:
            columns = zip(pending, schema, strict=True)
            arrays = [pa.array(values[:ROWS_PER_GROUP], field.type) for values, field in columns]
            writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=schema))
            for values in pending:
                del values[:ROWS_PER_GROUP]

        def columns_of(part: Part) -> list[Values]:
            return [column.values(run, part) for column in COLUMNS]

        def write(columns: list[Values]) -> None:
            for values, more in zip(pending, columns, strict=True):
                values.extend(more)
            while len(pending[0]) >= ROWS_PER_GROUP:
                write_group()

        yield Sink((path,), columns_of, write)
        if pending[0]:
            write_group()


def _schema() -> pa.Schema:
    import pyarrow as pa

    types = {
        Kind.TEXT: pa.string(),
        Kind.WORD: pa.string(),
        Kind.NUMBER: pa.float64(),
        Kind.COUNT: pa.int64(),
        Kind.FACT: pa.bool_(),
        Kind.TIME: pa.timestamp("ms", tz="UTC"),
        Kind.SCORES: pa.map_(pa.string(), pa.float64()),
        Kind.TEXTS: pa.list_(pa.string()),
        Kind.NUMBERS: pa.list_(pa.float64()),
    }
    return pa.schema([(column.name, types[column.kind]) for column in COLUMNS])
