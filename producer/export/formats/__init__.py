"""The formats of `python -m producer export`, one function each."""

from __future__ import annotations

from collections.abc import Callable

import click

from contract.commands import Command
from producer.export.formats.base import Format
from producer.export.formats.lm_eval import lm_eval_files
from producer.export.formats.parquet import parquet_rows
from producer.export.formats.text import csv_rows, json_lines

__all__ = ["FORMATS", "USUAL", "WRITTEN", "formats_option"]

#: Formats by their name in `--format`.
FORMATS: dict[str, Format] = {
    "csv": csv_rows,
    "jsonl": json_lines,
    "lm-eval": lm_eval_files,
    "parquet": parquet_rows,
}
#: Those that are written unless `--format` names others.
USUAL = ("csv",)
#: Patterns of all files that these write into a run's folder.
WRITTEN = (
    "results.csv",
    "results.jsonl",
    "lm-eval/*/samples_*.jsonl",
    "lm-eval/*/results_*.json",
    "results.parquet",
)


def formats_option(said: str) -> Callable[[Command], Command]:
    """Add `--format`, which may be repeated; `said` is what it says of itself."""
    kind = click.Choice(sorted(FORMATS))
    said = f"{said}; repeat the option to write several."
    return click.option("--format", "formats", type=kind, multiple=True, default=USUAL, show_default=True, help=said)
