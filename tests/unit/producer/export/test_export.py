"""results.csv, results.jsonl and summary.json."""

from __future__ import annotations

import csv
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from contract.errors import UnknownRun
from contract.fleet import WorkerRecord, WorkerState
from contract.ledger import MemoryLedger
from contract.mode import Mode
from contract.verdict import Outcome, Verdict
from producer.export.cells import iso
from producer.export.columns import NAMES
from producer.export.results import export
from tests.support import interrupted_run, make_question, make_questions, open_run, settle
from tests.unit.producer.settled import QUESTIONS, VERDICTS


def rows_of(directory: Path) -> list[dict[str, str]]:
    with (directory / "results.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_every_question_is_a_row_in_the_order_of_the_input(filled: MemoryLedger, tmp_path: Path) -> None:
    export(filled, "run-1", tmp_path)

    rows = rows_of(tmp_path)
    assert [row["question_id"] for row in rows] == ["a", "b", "c", "d", "e"]
    assert [row["outcome"] for row in rows] == ["correct", "unanswered", "answered", "failed", "unsettled"]
    assert [row["correct"] for row in rows] == ["true", "false", "", "", ""], "failed is not wrong, no key is neither"


def test_of_a_run_whose_questions_are_not_written_yet_there_are_only_the_names_of_the_columns(
    ledger: MemoryLedger, tmp_path: Path
) -> None:
    run = interrupted_run(ledger, make_questions(5), written=0)

    export(ledger, run.run_id, tmp_path)

    assert (tmp_path / "results.csv").read_text() == ",".join(NAMES) + "\n"


def test_of_several_right_choices_all_are_the_answer_and_what_is_not_known_is_null(
    ledger: MemoryLedger, tmp_path: Path
) -> None:
    several = make_question(0, choices=("x", "y", "z"), answer="A", also_right=("C",))
    run = open_run(ledger, [several, make_question(1, answer=None)])
    settle(ledger, run.run_id, "q0", choice="C")
    settle(ledger, run.run_id, "q1", outcome=Outcome.UNANSWERED)

    export(ledger, run.run_id, tmp_path, ("parquet",))

    first, second = pq.read_table(tmp_path / "results.parquet").to_pylist()
    assert (first["correct"], first["answer"], first["choice_text"]) == (True, "A,C", "z")
    unknown = ("correct", "answer", "choice", "choice_scores", "retrieval_scores", "settled_at")
    assert [second[each] for each in unknown] == [None] * 6


def test_the_margin_is_0_in_the_files_only_where_it_is_a_tie(ledger: MemoryLedger, tmp_path: Path) -> None:
    run = open_run(ledger, make_questions(3))
    margins = (0.0, 2.4e-7, 0.25)
    for number, margin in enumerate(margins):
        settle(ledger, run.run_id, f"q{number}", outcome=Outcome.WRONG, margin=margin)

    done = export(ledger, run.run_id, tmp_path, ("csv", "parquet"))

    assert [float(row["margin"]) for row in rows_of(tmp_path)] == list(margins)
    assert pq.read_table(tmp_path / "results.parquet")["margin"].to_pylist() == list(margins)
    assert done.content["rates"]["tied"] == round(1 / 3, 6)


def test_cells_are_rounded_compact_and_faithful(filled: MemoryLedger, tmp_path: Path) -> None:
    export(filled, "run-1", tmp_path)

    first, second, _, failed, unsettled = rows_of(tmp_path)
    assert first == {
        "run_id": "run-1",
        "question_id": "a",
        "subject": "s",
        "outcome": "correct",
        "correct": "true",
        "answer": "B",
        "choice": "B",
        "choice_text": "'=1+1",
        "confidence": "0.123457",
        "margin": "inf",
        "choice_scores": '{"A":"-inf","B":-1.234568}',
        "raw_text": "",
        "rule": "argmax",
        "mode": "generate",
        "model": "m",
        "retrieved_ids": '["p1","p2"]',
        "retrieval_scores": "[0.512346,0.25]",
        "retrieval_hit": "",
        "passages_left_out": "0",
        "truncated": "false",
        "prompt_tokens": "11",
        "completion_tokens": "2",
        "attempts": "1",
        "error_type": "",
        "error_message": "",
        "batch_id": "b1",
        "batch_size": "2",
        "worker": "w1",
        "queued_ms": "1.235",
        "latency_ms": "500.0",
        "settled_at": "2023-11-14T22:13:20.500Z",
        "metadata": '{"level":3}',
        "rotation_choices": "",
        "simulated": "false",
        "reused_from": "",
    }
    assert second["raw_text"] == '\'+ "quoted",\nsecond line'
    assert (failed["error_type"], failed["error_message"], failed["attempts"]) == ("RequestRejected", "long", "3")
    assert {name for name, cell in unsettled.items() if cell} == {
        "run_id", "question_id", "outcome", "answer", "mode", "model"
    }  # fmt: skip


@pytest.mark.parametrize("text", ["one\rtwo", "one\r\ntwo", "one\ntwo", "\r", "end\r\n"])
def test_however_a_models_text_breaks_its_lines_the_question_stays_one_row(
    filled: MemoryLedger, tmp_path: Path, text: str
) -> None:
    said = f"It says: {text}"
    settle(filled, "run-1", "e", outcome=Outcome.UNANSWERED, raw_text=said)

    export(filled, "run-1", tmp_path)

    rows = rows_of(tmp_path)
    assert [row["question_id"] for row in rows] == ["a", "b", "c", "d", "e"]
    assert rows[4]["raw_text"] == said
    assert (tmp_path / "results.csv").read_bytes().endswith(b"\n")
    assert not (tmp_path / "results.csv").read_bytes().endswith(b"\r\n")


def test_json_lines_carry_the_whole_question_and_verdict(filled: MemoryLedger, tmp_path: Path) -> None:
    done = export(filled, "run-1", tmp_path, ("jsonl",))

    assert [path.name for path in done.files] == ["results.jsonl", "summary.json"]
    lines = [json.loads(line) for line in (tmp_path / "results.jsonl").read_text().splitlines()]
    assert [line["question"]["id"] for line in lines] == ["a", "b", "c", "d", "e"]
    assert Verdict.model_validate(lines[0]["verdict"]) == VERDICTS[0]
    assert lines[4]["verdict"] is None


def test_json_lines_are_json_also_where_a_choice_is_impossible(filled: MemoryLedger, tmp_path: Path) -> None:
    settle(filled, "run-1", "e", outcome=Outcome.UNANSWERED, raw_text="Infinity is not NaN, it says")

    export(filled, "run-1", tmp_path, ("jsonl",))

    def refused(name: str) -> None:
        raise AssertionError(f"{name} is no JSON")

    lines = [json.loads(line, parse_constant=refused) for line in (tmp_path / "results.jsonl").read_text().splitlines()]
    assert (lines[0]["verdict"]["choice_scores"], lines[0]["verdict"]["margin"]) == (
        {"A": "-inf", "B": -1.23456789},
        "inf",
    )
    assert lines[4]["verdict"]["raw_text"] == "Infinity is not NaN, it says"


def test_the_summary_says_what_was_asked_and_what_came_of_it(filled: MemoryLedger, tmp_path: Path) -> None:
    live = WorkerRecord(name="w1", model="m", state=WorkerState.READY, engine={"name": "simulated"})

    export(filled, "run-1", tmp_path, live=[live])

    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["spec"]["prompt"]["text"] == "{{ question }}"
    assert (summary["total"], summary["settled"], summary["unsettled"], summary["without_key"]) == (5, 4, 1, 1)
    assert (summary["accuracy_all"]["right"], summary["accuracy_all"]["of"]) == (1, 3)
    assert summary["accuracy_answered"]["of"] == 1
    by_subject = {name: (each["total"], each["chance"]) for name, each in summary["by_subject"].items()}
    assert by_subject == {"": (2, None), "s": (2, 0.5), "t": (1, 0.5)}, "the questions without a subject have no key"
    assert (summary["tokens"]["prompt"], summary["tokens"]["completion"]) == (16, 2)
    assert summary["workers"] == ["w0", "w1"]
    assert (summary["wall_s"], summary["questions_per_s"]) == (2.0, 2.0), "from the first call's start"
    assert summary["environment"]["engines"][0]["engine"] == {"name": "simulated"}
    assert summary["environment"]["packages"]["celery"]


def test_the_summary_says_how_much_the_subjects_and_the_confidences_tell(filled: MemoryLedger, tmp_path: Path) -> None:
    summary = export(filled, "run-1", tmp_path).content

    # With key and verdict: a right and b unanswered in s, d failed in t; the questions without a subject have neither.
    macro = summary["macro_accuracy"]
    assert (macro["value"], macro["subjects"], macro["failed_subjects"]) == (0.5, 1, 1), "1/2; no answer in t is known"
    assert 0 <= macro["low"] < 0.5 < macro["high"] < 1
    assert "macro_accuracy_without_failed" not in summary, "it leaves out t, which failed as a whole, as it is"
    # Two subjects, and 12.7 standard errors of 0.31 to either side: nothing is known.
    assert summary["accuracy_cluster_interval"] == {"clusters": 2, "low": 0.0, "high": 1.0}
    assert summary["rates"] == {
        "of": 4,
        "unanswered": 0.25,
        "failed": 0.25,
        "simulated": 0.0,
        "truncated": 0.0,
        "context_full": 0.0,
        "tied": 0.0,
    }
    calibration = summary["calibration"]
    assert (calibration["of"], calibration["ece"]) == (1, 0.876543), "right, claiming 0.123457"
    assert (calibration["brier_of"], calibration["brier"]) == (1, 0.0), "minus infinity against a score is 0 against 1"
    assert calibration["bins"][1] == {"low": 0.1, "high": 0.2, "count": 1, "confidence": 0.123457, "accuracy": 1.0}
    assert json.loads((tmp_path / "summary.json").read_text())["calibration"] == calibration


def test_without_subjects_the_summary_says_why_there_is_no_interval_over_them(
    ledger: MemoryLedger, tmp_path: Path
) -> None:
    run = open_run(ledger, QUESTIONS[4:])
    settle(ledger, run.run_id, "e", choice="A")

    summary = export(ledger, run.run_id, tmp_path).content

    assert summary["accuracy_all"]["value"] == 1.0
    assert (summary["macro_accuracy"], summary["by_subject"]) == (None, {})
    interval = summary["accuracy_cluster_interval"]
    assert (interval["clusters"], interval["low"], interval["high"]) == (0, None, None)
    assert "at least two subjects" in interval["note"]


def test_a_circular_question_has_its_choice_in_each_rotation(ledger: MemoryLedger, tmp_path: Path) -> None:
    run = open_run(ledger, QUESTIONS[:2], mode=Mode.LETTER, circular=True)
    rotated: dict[str, Any] = {"outcome": Outcome.WRONG, "rotations": 2}
    settle(ledger, run.run_id, "a", choice="B", rotation_choices=("B", None), **rotated)
    settle(ledger, run.run_id, "b", choice="A", **rotated)

    export(ledger, run.run_id, tmp_path, ("csv", "jsonl"))

    assert [row["rotation_choices"] for row in rows_of(tmp_path)] == ['["B",null]', ""]
    whole = [json.loads(line)["verdict"] for line in (tmp_path / "results.jsonl").read_text().splitlines()]
    assert [each["rotation_choices"] for each in whole] == [["B", None], []]


def test_a_table_that_travels_alone_says_which_answers_were_made_up(ledger: MemoryLedger, tmp_path: Path) -> None:
    run = open_run(ledger, QUESTIONS[:3])
    settle(ledger, run.run_id, "a", choice="B", simulated=True)
    settle(ledger, run.run_id, "b", outcome=Outcome.WRONG, choice="A")

    export(ledger, run.run_id, tmp_path)

    assert [row["simulated"] for row in rows_of(tmp_path)] == ["true", "false", ""]


def test_the_summary_names_the_files_of_its_export(filled: MemoryLedger, tmp_path: Path) -> None:
    export(filled, "run-1", tmp_path)
    export(filled, "run-1", tmp_path, ("jsonl", "lm-eval"))

    names = json.loads((tmp_path / "summary.json").read_text())["files"]

    assert "results.csv" not in names, "an older export's"
    assert (names[0], len(names)) == ("results.jsonl", 3)
    assert all((tmp_path / name).is_file() for name in names)


def test_an_unknown_run_is_not_exported(filled: MemoryLedger, tmp_path: Path) -> None:
    with pytest.raises(UnknownRun):
        export(filled, "run-2", tmp_path / "out")

    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("seconds", [1_795_000_000.0, 1_795_000_000.0009, 1_795_000_000.9999996, 0.001, 86_399.9995])
def test_a_time_is_written_as_the_standard_library_writes_it(seconds: float) -> None:
    expected = datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    assert iso(seconds) == expected
