"""`load FOLDER…`: exported runs come back into a ledger as they were, or not at all."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from contract.engine_info import EngineUsed
from contract.ledger import MemoryLedger, RunState
from contract.priority import Priority
from contract.verdict import Outcome, Verdict
from producer.broker import MemoryBroker
from tests.unit.producer.conftest import Producer, WriteRows, session_on, settle_whole
from tests.unit.producer.settled import QUESTIONS, VERDICTS

ROWS = [each.model_dump(mode="json", exclude_none=True) for each in QUESTIONS]


@pytest.fixture
def run_id(producer: Producer, ledger: MemoryLedger, write_rows: WriteRows) -> str:
    """A run of five questions, four of them settled, with an engine."""
    run_id: str = producer.json("enqueue", write_rows(*ROWS), "--run", "exam", "--set", "mode=letter")["run_id"]
    ledger.note_engine(run_id, EngineUsed(worker="w0", engine={"engine": "vllm"}, since=1_700_000_000.0))
    ledger.commit(run_id, VERDICTS)
    return run_id


@pytest.fixture
def archive(producer: Producer, run_id: str, tmp_path: Path) -> Path:
    """The folder of that run's export."""
    producer("export", run_id, "--format", "jsonl", "--out", tmp_path)
    return tmp_path / run_id


@pytest.fixture
def elsewhere() -> Producer:
    """Another machine, with a ledger of its own."""
    return Producer(session_on(MemoryLedger()))


def all_of(producer: Producer, run_id: str) -> Any:
    ledger = producer.session.ledger
    return list(ledger.results(run_id)), ledger.engines(run_id)


def test_a_run_comes_back_with_its_questions_verdicts_and_engines(
    producer: Producer, elsewhere: Producer, run_id: str, archive: Path
) -> None:
    told = " ".join(elsewhere("load", archive).stdout.split())
    assert f"run {run_id} state paused: 4 verdicts loaded; 1 question unsettled" in told
    assert f"to ask them: python -m producer resume {run_id}" in told
    assert all_of(elsewhere, run_id) == all_of(producer, run_id)
    there, here = (each.session.ledger.run(run_id) for each in (elsewhere, producer))
    assert there == here


def test_a_run_comes_back_with_its_priority_and_its_weight(
    producer: Producer, elsewhere: Producer, write_rows: WriteRows, tmp_path: Path
) -> None:
    """Both were lost, so a run that was to come first came last when it was resumed."""
    run_id = producer.json("enqueue", write_rows(*ROWS), "--priority", "high", "--weight", "3")["run_id"]
    producer("export", run_id, "--format", "jsonl", "--out", tmp_path)

    elsewhere("load", tmp_path / run_id)

    session = elsewhere.session
    assert (session.ledger.run(run_id).priority, session.broker.weight(run_id)) == (Priority.HIGH, 3)
    elsewhere("weight", run_id, "5")
    elsewhere("load", tmp_path / run_id)
    assert session.broker.weight(run_id) == 5, "what was set here stays"


def test_an_export_that_does_not_say_its_priority_is_one_of_normal_priority(
    elsewhere: Producer, run_id: str, archive: Path
) -> None:
    summary = json.loads((archive / "summary.json").read_text())
    del summary["priority"], summary["weight"]
    (archive / "summary.json").write_text(json.dumps(summary))

    elsewhere("load", archive)

    session = elsewhere.session
    assert (session.ledger.run(run_id).priority, session.broker.weight(run_id)) == (Priority.NORMAL, 1)


def test_what_was_not_settled_is_asked_once_the_run_is_resumed(elsewhere: Producer, run_id: str, archive: Path) -> None:
    elsewhere("load", archive)
    broker = elsewhere.session.broker
    assert isinstance(broker, MemoryBroker)
    assert broker.messages == []
    elsewhere("resume", run_id)
    assert [ids for _, _, ids in broker.messages] == [["e"]]


def test_a_settled_run_is_exported_as_before_and_its_failed_questions_can_be_asked_again(
    producer: Producer, elsewhere: Producer, ledger: MemoryLedger, run_id: str, archive: Path, tmp_path: Path
) -> None:
    settle_whole(ledger, run_id)
    producer("export", run_id, "--format", "jsonl", "--out", tmp_path, exit_code=3)
    before = (archive / "results.jsonl").read_bytes()
    (told,) = elsewhere.json("load", archive)
    assert told == {"run_id": run_id, "state": "settled", "questions": 5, "loaded": 5, "unsettled": 0}
    elsewhere("export", run_id, "--format", "jsonl", "--out", tmp_path, exit_code=3)
    assert (archive / "results.jsonl").read_bytes() == before
    elsewhere("requeue", run_id, "--failed")
    assert list(elsewhere.session.ledger.unsettled(run_id)) == ["d"]


def test_a_run_that_was_purged_comes_back(producer: Producer, run_id: str, archive: Path) -> None:
    before = all_of(producer, run_id)
    producer("purge", run_id, "--yes")
    producer("load", archive)
    assert all_of(producer, run_id) == before


def test_a_run_that_came_back_is_exported_into_the_same_files(
    producer: Producer, run_id: str, archive: Path, tmp_path: Path
) -> None:
    """Those of lm-eval were written a second time, under another name: the microseconds of its date were lost."""
    producer("export", run_id, "--format", "lm-eval", "--format", "jsonl", "--out", tmp_path)
    before = {each.name for each in archive.rglob("*.json*")}
    producer("purge", run_id, "--yes")
    producer("load", archive)
    producer("export", run_id, "--format", "lm-eval", "--format", "jsonl", "--out", tmp_path)
    assert {each.name for each in archive.rglob("*.json*")} == before


def test_verdicts_that_are_there_stay(producer: Producer, ledger: MemoryLedger, run_id: str, archive: Path) -> None:
    last = Verdict(question_id="e", outcome=Outcome.WRONG, choice="B")
    ledger.commit(run_id, [last])
    told = " ".join(producer("load", archive).stdout.split())
    assert "settled: 0 verdicts loaded, 5 there before" in told
    assert ledger.result(run_id, "e")[1] == last


def test_a_run_that_goes_on_is_not_paused(
    producer: Producer, ledger: MemoryLedger, run_id: str, archive: Path, write_rows: WriteRows
) -> None:
    producer("purge", run_id, "--yes")
    producer("enqueue", write_rows(*ROWS), "--run", "exam", "--set", "mode=letter")
    told = " ".join(producer("load", archive).stdout.split())
    assert "running: 4 verdicts loaded; 1 question unsettled" in told
    assert "resume" not in told
    assert ledger.counts(run_id).state is RunState.RUNNING


def test_the_verdicts_of_two_machines_that_shared_a_run_come_together(
    producer: Producer, elsewhere: Producer, ledger: MemoryLedger, run_id: str, archive: Path, tmp_path: Path
) -> None:
    elsewhere("load", archive)
    settle_whole(ledger, run_id)
    producer("export", run_id, "--format", "jsonl", "--out", tmp_path, exit_code=3)
    told = " ".join(elsewhere("load", archive).stdout.split())
    assert "settled: 1 verdict loaded, 4 there before" in told
    assert elsewhere.session.ledger.counts(run_id).state is RunState.RUNNING


def test_a_load_that_was_killed_when_it_had_opened_the_run_is_repeated_on_a_paused_one(
    producer: Producer, elsewhere: Producer, run_id: str, archive: Path
) -> None:
    elsewhere.session.ledger.open_run(producer.session.ledger.run(run_id))
    elsewhere("load", archive)
    assert elsewhere.session.ledger.counts(run_id).state is RunState.PAUSED


def test_results_of_another_run_that_asked_the_same_questions_are_not_taken_for_its_own(
    producer: Producer, elsewhere: Producer, ledger: MemoryLedger, archive: Path, write_rows: WriteRows, tmp_path: Path
) -> None:
    other = producer.json("enqueue", write_rows(*ROWS), "--run", "other", "--set", "mode=likelihood")["run_id"]
    settle_whole(ledger, other)
    producer("export", other, "--format", "jsonl", "--out", tmp_path)
    (tmp_path / other / "results.jsonl").replace(archive / "results.jsonl")
    told = elsewhere("load", archive, exit_code=1).stderr
    assert f"results.jsonl:1: it is of {other}, not of {archive.name}." in told


def test_a_verdict_on_another_question_than_the_one_beside_it_is_refused(elsewhere: Producer, archive: Path) -> None:
    results = archive / "results.jsonl"
    first, *others = map(json.loads, results.read_text().splitlines())
    first["verdict"]["question_id"] = "b"
    results.write_text("".join(f"{json.dumps(row)}\n" for row in (first, *others)))
    told = elsewhere("load", archive, exit_code=1).stderr
    assert "results.jsonl:1: its verdict is of b, not of a." in told
    assert elsewhere.session.ledger.run_ids() == []


def test_several_folders_are_loaded_or_none(
    producer: Producer, elsewhere: Producer, archive: Path, write_rows: WriteRows, tmp_path: Path
) -> None:
    other = producer.json("enqueue", write_rows(*ROWS), "--run", "other")["run_id"]
    producer("export", other, "--out", tmp_path)
    told = elsewhere("load", archive, tmp_path / other, exit_code=1).stderr
    assert "summary.json: it was exported without results.jsonl" in told
    assert "export RUN --format jsonl" in told
    assert elsewhere.session.ledger.run_ids() == []


def test_an_unset_variable_is_no_folder(elsewhere: Producer, archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(archive)
    assert "it is empty" in elsewhere("load", "", exit_code=2).stderr


def _change(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def _without_its_last_line(archive: Path) -> None:
    path = archive / "results.jsonl"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))


def _in_the_middle_of_a_line(archive: Path) -> None:
    path = archive / "results.jsonl"
    path.write_bytes(path.read_bytes()[:-30])


def _with_another_question(archive: Path) -> None:
    _change(archive / "results.jsonl", '"x"', '"z"')


def _with_another_outcome(archive: Path) -> None:
    _change(archive / "results.jsonl", '"outcome":"correct"', '"outcome":"right"')


def _with_another_setting(archive: Path) -> None:
    _change(archive / "summary.json", '"seed": 0', '"seed": 7')


def _of_a_newer_version(archive: Path) -> None:
    _change(archive / "summary.json", '"spec": {', '"spec": {"of_tomorrow": 1,')


def _gone(archive: Path) -> None:
    (archive / "summary.json").unlink()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_without_its_last_line, "results.jsonl has 4 questions, which are not the 5 of exam-"),
        (_in_the_middle_of_a_line, "results.jsonl:5: "),
        (_with_another_question, "it was changed, or cut short"),
        (_with_another_outcome, "results.jsonl:1: "),
        (_with_another_setting, "summary.json: its spec was changed"),
        (_of_a_newer_version, "It may be of a newer version of mcqueue"),
        (_gone, "summary.json: No such file or directory"),
    ],
)
def test_an_export_that_is_incomplete_or_was_changed_is_refused_before_anything_is_written(
    elsewhere: Producer, archive: Path, change: Callable[[Path], None], said: str
) -> None:
    change(archive)
    told = elsewhere("load", archive, exit_code=1).stderr
    assert said in told
    assert elsewhere.session.ledger.run_ids() == []


def test_a_run_of_the_same_id_that_asks_otherwise_is_not_touched(
    elsewhere: Producer, producer: Producer, run_id: str, archive: Path
) -> None:
    own = producer.session.ledger.run(run_id)
    another = own.model_copy(update={"spec": own.spec.model_copy(update={"seed": 7})})
    elsewhere.session.ledger.open_run(another)
    assert run_id in elsewhere("load", archive, exit_code=1).stderr
    assert elsewhere.session.ledger.counts(run_id).settled == 0
