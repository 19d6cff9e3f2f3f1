"""results.parquet: the columns of results.csv, with types.

What a CSV cell has as JSON is a map or a list here, and `settled_at` a time in UTC. Only `metadata` stays JSON: what a
question file says there has no type in common. Texts stand as they are, without the CSV's guard against formulas.
Arrow, DuckDB and Polars read maps and lists natively; pandas shows a map as pairs.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from contract.ledger import Run
from contract.question import Question
from contract.verdict import Verdict
from producer.columns import COLUMNS, Row, values_of
from producer.files import Drafts
from producer.formats.base import Sink

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["parquet_rows"]

#: Rows held before they are written as one row group: tens of megabytes at most, and still large enough to compress.
ROWS_PER_GROUP = 4096
NUMBERS = ("confidence", "margin", "queued_ms", "latency_ms")
COUNTS = ("prompt_tokens", "completion_tokens", "attempts", "batch_size")
FACTS = ("correct", "retrieval_hit", "truncated")


@contextmanager
def parquet_rows(drafts: Drafts, directory: Path, run: Run) -> Iterator[Sink]:
    """One row per question, in row groups of a few thousand."""
    import pyarrow as pa  # late: no other command needs it, and it takes a tenth of a second
    import pyarrow.parquet as pq

    path, schema = directory / "results.parquet", _schema()
    values = values_of(run)
    pending: list[Row] = []
    with pq.ParquetWriter(drafts.binary(path), schema, compression="zstd") as writer:

        def flush() -> None:
            columns = zip(zip(*pending, strict=True), schema, strict=True)
            arrays = [pa.array(cells, field.type) for cells, field in columns]
            writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=schema))
            pending.clear()

        def write(question: Question, verdict: Verdict | None) -> None:
            pending.append(values(question, verdict))
            if len(pending) == ROWS_PER_GROUP:
                flush()

        yield Sink((path,), write)
        if pending:
            flush()


def _schema() -> pa.Schema:
    import pyarrow as pa

    types = {
        **dict.fromkeys(NUMBERS, pa.float64()),
        **dict.fromkeys(COUNTS, pa.int64()),
        **dict.fromkeys(FACTS, pa.bool_()),
        "choice_scores": pa.map_(pa.string(), pa.float64()),
        "retrieved_ids": pa.list_(pa.string()),
        "retrieval_scores": pa.list_(pa.float64()),
        "settled_at": pa.timestamp("ms", tz="UTC"),
    }
    return pa.schema([(name, types.get(name, pa.string())) for name in COLUMNS])
