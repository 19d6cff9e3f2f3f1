"""results.csv and results.jsonl: a line per question."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from contract.ledger import Run
from producer.export.columns import COLUMNS, Row, cells_of
from producer.export.files import Drafts
from producer.export.formats.base import Sink
from producer.export.parts import Part

__all__ = ["csv_rows", "json_lines"]


@contextmanager
def csv_rows(drafts: Drafts, directory: Path, run: Run) -> Iterator[Sink]:
    """The columns of `producer/export/columns.py`, as spreadsheets read them."""
    path = directory / "results.csv"
    file, cells = drafts.text(path), cells_of(run)
    file.write(_table([COLUMNS]))
    yield Sink((path,), lambda part: _table(cells(question, verdict) for question, verdict in part), file.write)


def _table(rows: Iterable[Row]) -> str:
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


@contextmanager
def json_lines(drafts: Drafts, directory: Path, run: Run) -> Iterator[Sink]:
    """Everything there is: the whole question and the whole verdict."""
    path = directory / "results.jsonl"
    file = drafts.text(path)
    start = f'{{"run_id":{json.dumps(run.run_id)},"question":'

    def lines(part: Part) -> str:
        return "".join(
            f'{start}{question.model_dump_json()},"verdict":{verdict.model_dump_json() if verdict else "null"}}}\n'
            for question, verdict in part
        )

    yield Sink((path,), lines, file.write)
