"""results.csv and results.jsonl: one line per question."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from contract.ledger import Run
from contract.verdict import Verdict
from producer.export.cells import as_cells, named
from producer.export.columns import COLUMNS, NAMES
from producer.export.files import Drafts
from producer.export.formats.base import Sink
from producer.export.parts import Part

__all__ = ["csv_rows", "csv_text", "json_lines", "named_infinities"]


@contextmanager
def csv_rows(drafts: Drafts, directory: Path, run: Run) -> Iterator[Sink]:
    """Write the columns of `producer/export/columns.py` for spreadsheets."""
    path = directory / "results.csv"
    file = drafts.text(path)
    file.write(csv_text([NAMES]))

    def lines(part: Part) -> str:
        columns = (as_cells(column.kind, column.values(run, part)) for column in COLUMNS)
        return csv_text(zip(*columns, strict=True))

    yield Sink((path,), lines, file.write)


class _Lines(list[str]):
    r"""Collects the lines written by the csv module, with ``\n`` as the line ending.

    The module itself is set to ``\r\n``, because Python 3.11 quotes only characters of its line terminator, and readers
    take an unquoted carriage return for the end of a row.
    """

    def write(self, line: str) -> None:
        """Add one row."""
        self.append(line.removesuffix("\r\n") + "\n")


def csv_text(rows: Iterable[Sequence[Any]]) -> str:
    """Return rows of cells as CSV."""
    lines = _Lines()
    csv.writer(lines, lineterminator="\r\n").writerows(rows)
    return "".join(lines)


@contextmanager
def json_lines(drafts: Drafts, directory: Path, run: Run) -> Iterator[Sink]:
    """Write the complete question and the complete verdict."""
    path = directory / "results.jsonl"
    file = drafts.text(path)
    start = f'{{"run_id":{json.dumps(run.run_id)},"question":'

    def lines(part: Part) -> str:
        return "".join(
            f'{start}{question.model_dump_json()},"verdict":{_verdict(verdict) if verdict else "null"}}}\n'
            for question, verdict in part
        )

    yield Sink((path,), lines, file.write)


def _verdict(verdict: Verdict) -> str:
    """Return standard JSON, with infinities, which JSON lacks, replaced by name as in results.csv."""
    written = verdict.model_dump_json()
    if "Infinity" not in written and "NaN" not in written:
        return written
    return json.dumps(named_infinities(verdict.model_dump(mode="json")), ensure_ascii=False, separators=(",", ":"))


def named_infinities(value: Any) -> Any:
    """Return `value` with infinities and NaN, at any depth, replaced by their names."""
    if isinstance(value, dict):
        return {name: named_infinities(each) for name, each in value.items()}
    if isinstance(value, list):
        return [named_infinities(each) for each in value]
    return named(value) if isinstance(value, float) else value
