"""results.csv and results.jsonl: a line per question."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from contract.ledger import Run
from contract.question import Question
from contract.verdict import Verdict
from producer.columns import COLUMNS, result_row
from producer.files import Drafts
from producer.formats.base import Sink
from producer.harmless import for_cell

__all__ = ["csv_rows", "json_lines"]


@contextmanager
def csv_rows(drafts: Drafts, directory: Path, run: Run) -> Iterator[Sink]:
    """The columns of `producer/columns.py`, as spreadsheets read them."""
    path = directory / "results.csv"
    writer = csv.writer(drafts.text(path), lineterminator="\n")
    writer.writerow(COLUMNS)

    def write(question: Question, verdict: Verdict | None) -> None:
        row = result_row(run, question, verdict)
        writer.writerow([for_cell(cell) if cell.__class__ is str else cell for cell in row])

    yield Sink((path,), write)


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
