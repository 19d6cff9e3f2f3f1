"""results.parquet: the rows of results.csv, with types."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from contract.ledger import MemoryLedger, Run
from contract.mode import Mode
from contract.question import Question
from contract.spec import Prompt, RunSpec
from contract.verdict import Outcome, Passage, Verdict
from producer.export.columns import NAMES
from producer.export.formats import parquet
from producer.export.results import export
from tests.unit.producer import settled

RIGHT, UNANSWERED, KEYLESS, FAILED = settled.VERDICTS
#: The same, with what types make difficult.
QUESTIONS = (
    Question(id="a", question="q", choices=("x", "=1+1"), answer="B", subject="s", metadata={"level": 3, "n": 2**70}),
    Question(id="b", question="q", choices=("x", "y", "z"), answer="A", also_right=("C",), subject="Größe 📏"),
    Question(id="c", question="q", choices=("x", "y")),
    Question(id="d", question="q", choices=("x", "y"), answer="A"),
    Question(id="e", question="q", choices=("x", "y"), answer="A", metadata={"hard": True, "tag": None}),
    Question(id="f", question="q", choices=("x", "y"), answer="A"),
)
PASSAGES = (
    Passage(id='p"1"', score=0.51234567, text="t"),
    Passage(id="p,2", score=float("-inf"), text="t", shown=False),
)
VERDICTS = (
    RIGHT.model_copy(update={"passages": PASSAGES, "retrieval_hit": True}),
    UNANSWERED.model_copy(update={"retrieval_hit": False, "settled_at": 1_700_000_002.9996}),
    KEYLESS.model_copy(update={"confidence": float("nan")}),
    FAILED,
    Verdict(question_id="e", outcome=Outcome.WRONG, choice="B", choice_scores={"A": -2.0, "B": -1e-7}, truncated=True),
)
#: Column type → what a cell of results.csv says, as that type's value; an empty cell is null.
READING: dict[str, Callable[[str], Any]] = {
    # The CSV's apostrophe keeps spreadsheets from running a formula; here nothing runs it.
    "string": lambda cell: cell.removeprefix("'"),
    "bool": {"true": True, "false": False}.__getitem__,
    "int64": int,
    "double": float,
    "map<string, double ('choice_scores')>": lambda cell: [
        (label, float(score)) for label, score in json.loads(cell).items()
    ],
    "list<element: string>": json.loads,
    "list<element: double>": lambda cell: list(map(float, json.loads(cell))),
    "timestamp[ms, tz=UTC]": lambda cell: datetime.fromisoformat(cell).astimezone(UTC),
}


@pytest.fixture
def filled(ledger: MemoryLedger) -> MemoryLedger:
    spec = RunSpec(
        questions_digest="0" * 64, model="m", mode=Mode.LIKELIHOOD, prompt=Prompt(name="p", text="{{ question }}")
    )
    run = Run(run_id="run-1", spec=spec, source="q.json", questions=len(QUESTIONS), chance=0.5, created_at=1.0)
    ledger.open_run(run)
    ledger.add_questions("run-1", QUESTIONS)
    ledger.commit("run-1", VERDICTS)
    return ledger


def both(directory: Path) -> tuple[list[dict[str, str]], pa.Table]:
    with (directory / "results.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file)), pq.read_table(directory / "results.parquet")


def same(found: Any, expected: Any) -> bool:
    both_nan = isinstance(found, float) and isinstance(expected, float) and math.isnan(found) and math.isnan(expected)
    return both_nan or (type(found) is type(expected) and found == expected)


def test_every_cell_is_that_of_the_csv_in_its_type(filled: MemoryLedger, tmp_path: Path) -> None:
    export(filled, "run-1", tmp_path, ("csv", "parquet"))

    rows, table = both(tmp_path)
    assert table.num_rows == len(rows) == len(QUESTIONS)
    for column in NAMES:
        reading = READING[str(table.schema.field(column).type)]
        for row, found in zip(rows, table[column].to_pylist(), strict=True):
            # CSV has no word for null: an empty text and no text look the same there.
            empty = "" if found == "" else None
            expected = reading(row[column]) if row[column] else empty
            assert same(found, expected), f"{row['question_id']}.{column}: {found!r} is not {row[column]!r}"


def test_the_columns_are_those_of_the_csv_and_say_what_they_are(filled: MemoryLedger, tmp_path: Path) -> None:
    export(filled, "run-1", tmp_path, ("parquet",))

    schema = pq.read_schema(tmp_path / "results.parquet")
    assert tuple(schema.names) == NAMES
    assert {name: str(schema.field(name).type) for name in NAMES if schema.field(name).type != pa.string()} == {
        "correct": "bool",
        "confidence": "double",
        "margin": "double",
        "choice_scores": "map<string, double ('choice_scores')>",
        "retrieved_ids": "list<element: string>",
        "retrieval_scores": "list<element: double>",
        "retrieval_hit": "bool",
        "passages_left_out": "int64",
        "truncated": "bool",
        "prompt_tokens": "int64",
        "completion_tokens": "int64",
        "attempts": "int64",
        "batch_size": "int64",
        "queued_ms": "double",
        "latency_ms": "double",
        "settled_at": "timestamp[ms, tz=UTC]",
        "rotation_choices": "list<element: string>",
        "simulated": "bool",
    }


def test_no_more_than_a_row_group_is_held_and_the_order_stays(
    filled: MemoryLedger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet, "ROWS_PER_GROUP", 4)

    export(filled, "run-1", tmp_path, ("parquet",))

    groups = pq.read_metadata(tmp_path / "results.parquet")
    assert [groups.row_group(at).num_rows for at in range(groups.num_row_groups)] == [4, 2]
    assert pq.read_table(tmp_path / "results.parquet")["question_id"].to_pylist() == list("abcdef")


def test_a_run_nobody_has_answered_is_a_table_of_unsettled_questions(filled: MemoryLedger, tmp_path: Path) -> None:
    run = filled.run("run-1").model_copy(update={"run_id": "run-2", "questions": 2})
    filled.open_run(run)
    filled.add_questions("run-2", QUESTIONS[:2])

    done = export(filled, "run-2", tmp_path, ("parquet",))

    table = pq.read_table(tmp_path / "results.parquet")
    assert table["outcome"].to_pylist() == ["unsettled", "unsettled"]
    assert table["choice_scores"].null_count == table["settled_at"].null_count == 2
    assert (done.content["state"], done.content["unsettled"]) == ("running", 2)
