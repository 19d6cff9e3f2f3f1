"""The formats of `python -m producer export`, one function each."""

from __future__ import annotations

from producer.export.formats.base import Format
from producer.export.formats.lm_eval import lm_eval_files
from producer.export.formats.parquet import parquet_rows
from producer.export.formats.text import csv_rows, json_lines

__all__ = ["FORMATS", "WRITTEN"]

#: Formats by their name in `--format`.
FORMATS: dict[str, Format] = {
    "csv": csv_rows,
    "jsonl": json_lines,
    "lm-eval": lm_eval_files,
    "parquet": parquet_rows,
}
#: Patterns of all files that these write into a run's folder.
WRITTEN = (
    "results.csv",
    "results.jsonl",
    "lm-eval/*/samples_*.jsonl",
    "lm-eval/*/results_*.json",
    "results.parquet",
)
