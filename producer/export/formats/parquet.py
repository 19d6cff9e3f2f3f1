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
from producer.export.columns import COLUMNS, Row, values_of
from producer.export.files import Drafts
from producer.export.formats.base import Sink
from producer.export.parts import Part

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["parquet_rows"]

#: Rows per row group: at most tens of megabytes in memory, and still large enough to compress well.
ROWS_PER_GROUP = 4096
NUMBERS = ("confidence", "margin", "queued_ms", "latency_ms")
COUNTS = ("passages_left_out", "prompt_tokens", "completion_tokens", "attempts", "batch_size")
FACTS = ("correct", "retrieval_hit", "truncated", "simulated")


@contextmanager
def parquet_rows(drafts: Drafts, directory: Path, run: Run) -> Iterator[Sink]:
    """Write one row per question, in row groups of a few thousand."""
    import pyarrow as pa  # imported late: no other command needs it, and it takes a tenth of a second
    import pyarrow.parquet as pq

    path, schema = directory / "results.parquet", _schema()
    values = values_of(run)
    pending: list[Row] = []
    with pq.ParquetWriter(drafts.binary(path), schema, compression="zstd") as writer:

        def write_group() -> None:
            columns = zip(zip(*pending[:ROWS_PER_GROUP], strict=True), schema, strict=True)
            arrays = [pa.array(cells, field.type) for cells, field in columns]
            writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=schema))
            del pending[:ROWS_PER_GROUP]

        def rows(part: Part) -> list[Row]:
            return [values(question, verdict) for question, verdict in part]

        def write(rows: list[Row]) -> None:
            pending.extend(rows)
            while len(pending) >= ROWS_PER_GROUP:
                write_group()

        yield Sink((path,), rows, write)
        if pending:
            write_group()


def _schema() -> pa.Schema:
    import pyarrow as pa

    types = {
        **dict.fromkeys(NUMBERS, pa.float64()),
        **dict.fromkeys(COUNTS, pa.int64()),
        **dict.fromkeys(FACTS, pa.bool_()),
        "choice_scores": pa.map_(pa.string(), pa.float64()),
        "retrieved_ids": pa.list_(pa.string()),
        "retrieval_scores": pa.list_(pa.float64()),
        "rotation_choices": pa.list_(pa.string()),
        "settled_at": pa.timestamp("ms", tz="UTC"),
    }
    return pa.schema([(name, types.get(name, pa.string())) for name in COLUMNS])
