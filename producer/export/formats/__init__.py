"""The formats of `python -m producer export`, one function each, and the option that chooses among them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import click

from contract.commands import Command
from producer.export.formats.base import Format
from producer.export.formats.lm_eval import lm_eval_files
from producer.export.formats.parquet import parquet_rows
from producer.export.formats.text import csv_rows, json_lines

__all__ = ["FORMATS", "USUAL", "WRITTEN", "again_in", "formats_option", "refuse_unused"]

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
    return click.option(
        "--format",
        "formats",
        type=click.Choice(sorted(FORMATS)),
        multiple=True,
        default=USUAL,
        show_default=True,
        callback=_each_once,
        help=f"{said}; repeat the option to write several.",
    )


def _each_once(_context: click.Context, _option: click.Parameter, names: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))


def refuse_unused(formats: Sequence[str], exporting: bool, option: str) -> None:
    """Refuse formats that were chosen without `option`, with which alone the command exports.

    Raises click.UsageError.
    """
    if formats != USUAL and not exporting:
        raise click.UsageError(f"--format says what {option} exports: add {option}.")


def again_in(formats: Sequence[str]) -> str:
    """Return how a suggested command names the same formats: options, or nothing for the usual one."""
    return "" if formats == USUAL else "".join(f" --format {each}" for each in formats)
