"""What is written when a suite is watched: every run's results, and the table as CSV and JSON."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from contract.ledger import MemoryLedger, RunState
from contract.verdict import Outcome
from producer.session import Session
from producer.suite import running
from producer.suite.watching import watch_suite
from producer.watching.finish import export_run
from tests.docs import blocks
from tests.support import ROOT, needed_package
from tests.unit.producer.conftest import Producer, WriteRows, settle_next
from tests.unit.producer.suite.conftest import settle_all, write_suite


def test_watch_exports_every_run_and_writes_the_table(
    producer: Producer, two_by_two: Path, ledger: MemoryLedger
) -> None:
    ids = [each["run_id"] for each in producer.json(two_by_two)["runs"]]
    settle_all(ledger)

    result = producer(two_by_two, "--watch")

    assert [path.exists() for each in ids for path in (Path("results", each, "results.csv"),)] == [True] * 4
    assert {path.name for path in Path("results/mine").iterdir()} == {"suite.csv", "suite.json", "suite.md"}
    for name in ("suite.csv", "suite.json", "suite.md"):
        assert f"results/mine/{name}" in result.stdout
    with Path("results/mine/suite.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["entry"], row["model"], row["run_id"]) for row in rows] == [
        (entry, model, run_id)
        for (entry, model), run_id in zip(
            [("red", "small"), ("red", "large"), ("blue", "small"), ("blue", "large")], ids, strict=True
        )
    ]
    assert {(row["accuracy"], row["right"], row["of"], row["failed"]) for row in rows} == {("0.75", "3", "4", "0")}
    content = json.loads(Path("results/mine/suite.json").read_text())
    assert (content["suite"], content["state"], content["file"]) == ("mine", "settled", "suite.yaml")
    assert [each["value"] for each in content["means"]] == [0.75, 0.75]


def test_a_remark_on_an_export_names_its_run(
    producer: Producer, two_by_two: Path, ledger: MemoryLedger, session: Session
) -> None:
    """Of nine runs of a suite, nobody could tell which one's lm-eval files lack some questions."""
    first, *others = (each["run_id"] for each in producer.json(two_by_two)["runs"])
    settle_next(ledger, first, Outcome.CORRECT, Outcome.FAILED, Outcome.CORRECT, Outcome.WRONG)
    settle_all(ledger)
    lacks = "lm-eval: 1 of 4 questions failed: no sample, not in any metric."

    watched = producer(two_by_two, "--watch", "--format", "lm-eval", exit_code=3)
    exported = Producer(session, "export", "--format", "lm-eval")

    for result in (watched, exported(first, *others, exit_code=3), exported(first, exit_code=3)):
        assert f"{first}: {lacks}" in result.stderr.splitlines()


def test_a_notebook_reads_all_runs_of_a_suite_as_the_documentation_says(
    producer: Producer, two_by_two: Path, ledger: MemoryLedger
) -> None:
    for run in producer.json(two_by_two)["runs"]:
        first = Outcome.WRONG if run["entry"] == "red" else Outcome.CORRECT
        settle_next(ledger, run["run_id"], first, Outcome.CORRECT, Outcome.CORRECT, Outcome.WRONG)
    producer(two_by_two, "--watch", "--format", "parquet", "--format", "jsonl")
    needed_package("pandas")
    (block,) = (each for each in blocks(ROOT / "docs" / "statistics.md") if "never_right" in each)
    found: dict[str, Any] = {}

    exec(block.replace("results/exams/", "results/mine/"), found)

    assert sorted(found["never_right"].index) == [("blue", "q3"), ("red", "q0"), ("red", "q3")]
    assert found["pandas"].read_parquet("all.parquet")["run_id"].nunique() == 4
    assert len(found["pyarrow"].parquet.read_table("all.parquet")) == 16
    for run in ledger.runs():
        written = {path.name for path in Path("results", run.run_id).iterdir()}
        assert written == {"results.parquet", "results.jsonl", "summary.json"}


def test_a_carriage_return_in_a_file_s_name_does_not_end_a_row_of_the_table(
    producer: Producer, sets: tuple[Path, Path], ledger: MemoryLedger
) -> None:
    sets[0].rename("odd\rname.jsonl")
    path = write_suite([{"name": "a", "file": "odd\rname.jsonl"}])
    producer(path)
    settle_all(ledger)

    producer(path, "--watch")

    with Path("results/mine/suite.csv").open(newline="") as file:
        assert [row["source"] for row in csv.DictReader(file)] == ["odd\rname.jsonl"]


def test_watch_as_json_is_one_document(producer: Producer, two_by_two: Path, ledger: MemoryLedger) -> None:
    producer(two_by_two)
    settle_all(ledger)

    found = producer.json(two_by_two, "--watch")

    assert found["state"] == "settled"
    assert "results/mine/suite.csv" in found["files"]


def test_a_run_that_was_cancelled_meanwhile_is_exported_and_exits_with_4(
    producer: Producer, two_by_two: Path, ledger: MemoryLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = [each["run_id"] for each in producer.json(two_by_two)["runs"]]

    def cancelled(*given: Any) -> None:
        settle_next(ledger, ids[0], Outcome.FAILED)
        ledger.halt(ids[0], RunState.CANCELLED)
        for each in ids[1:]:
            settle_next(ledger, each, *[Outcome.CORRECT] * 4)
        watch_suite(*given)

    monkeypatch.setattr(running, "watch_suite", cancelled)
    said = producer(two_by_two, "--watch", exit_code=4).stdout

    assert "1/4 settled · cancelled · 1 failed" in said
    assert Path("results", ids[0], "results.csv").exists()
    assert json.loads(Path("results/mine/suite.json").read_text())["state"] == "not settled"


def test_the_table_knows_which_questions_of_a_cancelled_run_have_a_key(
    producer: Producer, ledger: MemoryLedger, write_rows: WriteRows, monkeypatch: pytest.MonkeyPatch
) -> None:
    keyed = [{"question": f"Red {n}?", "choices": ["no", "yes"], "answer": "B"} for n in range(3)]
    write_rows({"question": "Blue?", "choices": ["no", "yes"]}, *keyed, name="red.jsonl")
    path = write_suite([{"name": "red", "file": "red.jsonl"}])

    def cancelled(*given: Any) -> None:
        (run,) = ledger.runs()
        settle_next(ledger, run.run_id, Outcome.UNANSWERED, Outcome.CORRECT, Outcome.CORRECT)
        ledger.halt(run.run_id, RunState.CANCELLED)
        watch_suite(*given)

    monkeypatch.setattr(running, "watch_suite", cancelled)
    producer(path, "--watch", exit_code=4)

    (found,) = json.loads(Path("results/mine/suite.json").read_text())["runs"]
    assert (found["accuracy_all"]["right"], found["accuracy_all"]["of"], found["without_key"]) == (2, 2, 1)


def test_a_folder_that_cannot_be_written_is_refused_before_anything_is_sent(
    producer: Producer, two_by_two: Path, ledger: MemoryLedger
) -> None:
    Path("results").mkdir()
    Path("results/mine").write_text("a file is in the way")

    assert "the results cannot be written" in producer(two_by_two, "--watch", exit_code=1).stderr
    assert ledger.runs() == []


def test_what_is_settled_between_the_export_and_the_table_is_in_neither(
    producer: Producer, two_by_two: Path, ledger: MemoryLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = [each["run_id"] for each in producer.json(two_by_two)["runs"]]

    def cancelled(*given: Any) -> None:
        for each in ids:
            settle_next(ledger, each, Outcome.CORRECT, Outcome.FAILED)
            ledger.halt(each, RunState.CANCELLED)
        watch_suite(*given)

    def then_settled(*given: Any) -> Any:
        done = export_run(*given)
        settle_all(ledger)
        return done

    monkeypatch.setattr(running, "watch_suite", cancelled)
    monkeypatch.setattr(running, "export_run", then_settled)
    producer(two_by_two, "--watch", exit_code=4)

    with Path("results/mine/suite.csv").open(newline="") as file:
        first, *others = csv.DictReader(file)
    assert [first[name] for name in ("state", "settled", "correct", "failed", "right", "of")] == [
        *("cancelled", "2", "1", "1", "1", "2")
    ]
    assert {each["state"] for each in others} == {"settled"}
    (in_json, *_) = json.loads(Path("results/mine/suite.json").read_text())["runs"]
    assert (in_json["state"], in_json["settled"], in_json["outcomes"]["correct"]) == ("cancelled", 2, 1)
