"""results.csv and results.jsonl: a line per question."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from contract.ledger import Run
from producer.columns import COLUMNS, cells_of
from producer.files import Drafts
from producer.formats.base import Sink

__all__ = ["csv_rows", "json_lines"]


@contextmanager
def csv_rows(drafts: Drafts, directory: Path, run: Run) -> Iterator[Sink]:
    """The columns of `producer/columns.py`, as spreadsheets read them."""
    path = directory / "results.csv"
    writer = csv.writer(drafts.text(path), lineterminator="\n")
    writer.writerow(COLUMNS)
    write_row, cells = writer.writerow, cells_of(run)
    yield Sink((path,), lambda question, verdict: write_row(cells(question, verdict)))


@contextmanager
def json_lines(drafts: Drafts, directory: Path, run: Run) -> Iterator[Sink]:
    """Everything there is: the whole question and the whole verdict."""
    path = directory / "results.jsonl"
    file = drafts.text(path)
    start = f'{{"run_id":{json.dumps(run.run_id)},"question":'
    yield Sink(
        (path,),
        lambda question, verdict: file.write(
            f'{start}{question.model_dump_json()},"verdict":{verdict.model_dump_json() if verdict else "null"}}}\n'
        ),
    )
