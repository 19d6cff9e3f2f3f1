"""Writes a suite's table to RESULTS/<suite>/: as CSV for spreadsheets, JSON for programs and Markdown for papers."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from contract.mode import Normalization
from contract.names import slug
from contract.sanitize import for_cell
from contract.verdict import Outcome
from producer.export.cells import iso
from producer.export.files import Drafts, explaining
from producer.export.formats.text import csv_text
from producer.stats import Interval, RetrievalTally, Share
from producer.suite.cell import Cell
from producer.suite.render import markdown
from producer.suite.table import Table

__all__ = ["folder_of", "write_table"]

COLUMNS = (
    *("suite", "entry", "model", "run_id", "state", "accuracy", "low", "high", "right", "of", "chance"),
    *("total", "settled", *(each.value for each in Outcome), "simulated", "mode", "source"),
    *("context_low", "context_high"),
    *("without_failed", "without_failed_low", "without_failed_high"),
    *("without_failed_context_low", "without_failed_context_high", "left_to_model"),
    *("normalization", *(f"accuracy_{each.value}" for each in Normalization)),
    *("retrieval_top_k", "recall", "accuracy_hit", "accuracy_miss", "answer_in_context"),
)


def folder_of(name: str, out: Path) -> Path:
    """Return the folder for the table of the suite called `name`."""
    return out / slug(name)


def write_table(table: Table, out: Path, file: Path) -> tuple[Path, ...]:
    """Write suite.csv, suite.md and suite.json, or leave the older ones; wherever the last exists, they fit together.

    Raises InputError.
    """
    directory = folder_of(table.suite, out)
    paths = tuple(directory / f"suite.{ending}" for ending in ("csv", "json", "md"))
    with explaining(directory), Drafts(seal=directory / "suite.json") as drafts:
        sheet, document, text = map(drafts.text, paths)
        sheet.write(csv_text(_rows(table)))
        content = {**table.to_json(), "file": str(file), "exported_at": iso(time.time())}
        json.dump(content, document, ensure_ascii=False, indent=2)
        document.write("\n")
        text.write(markdown(table))
    return paths


def _rows(table: Table) -> Iterator[tuple[Any, ...]]:
    yield COLUMNS
    for each in table.cells:
        yield tuple(for_cell(value) if isinstance(value, str) else value for value in _row(table.suite, each))


def _row(suite: str, cell: Cell) -> tuple[Any, ...]:
    run, counts, found = cell.run, cell.counts, cell.accuracy
    by = cell.by_normalization
    without = cell.without_failed
    names = ("value", "low", "high", "right", "of")
    figures = tuple(found.share.to_json()[name] for name in names) if found else (None,) * 5
    return (
        *(suite, cell.entry, cell.model, run.run_id, counts.standing, *figures, run.chance),
        *(counts.total, counts.settled, *(counts.of(each) for each in Outcome)),
        *(str(cell.simulated).lower(), run.spec.mode.value, run.source),  # as in results.csv
        *_ends(found.clustered if found else None),
        *((round(without.value, 6), *_ends(without.share.interval)) if without else (None,) * 3),
        *_ends(without.clustered if without else None),
        " ".join(cell.left_to_model),
        run.spec.normalization.value if run.spec.mode.scores_choices else None,
        *(_value(by.get(each)) for each in Normalization),
        *(_of_retrieval(cell.retrieval) if cell.retrieval else (None,) * 5),
    )


def _of_retrieval(found: RetrievalTally) -> tuple[int | float | None, ...]:
    """Return how many passages were retrieved at most, and whether they were those that the questions need."""
    depth = found.depths[-1]
    figures = (
        *(found.recall_any().get(depth), found.accuracy(hit=True), found.accuracy(hit=False)),
        found.answer_in_context(),
    )
    return (depth, *map(_value, figures))


def _value(found: Share | None) -> float | None:
    return round(found.value, 6) if found else None


def _ends(found: Interval | None) -> tuple[float | None, float | None]:
    return (round(found.low, 6), round(found.high, 6)) if found else (None, None)
