"""A suite that was asked already: what is left of it is asked, and what has changed since is told."""

from __future__ import annotations

from pathlib import Path

from contract.engine_info import EngineUsed
from contract.ledger import MemoryLedger
from contract.verdict import Outcome
from producer.broker import MemoryBroker
from tests.unit.producer.conftest import Producer, live_worker, settle_next
from tests.unit.producer.suite.conftest import settle_all, write_suite


def test_the_same_command_goes_on(producer: Producer, two_by_two: Path, broker: MemoryBroker) -> None:
    producer(two_by_two)
    broker.messages.pop()

    again = producer.json(two_by_two)["runs"]

    assert [each["submitted"] for each in again] == ["resumed"] * 4
    assert [each["sent"] for each in again] == [0, 0, 0, 2]


def test_a_settled_suite_is_printed_and_nothing_is_sent(
    producer: Producer, two_by_two: Path, ledger: MemoryLedger, broker: MemoryBroker
) -> None:
    producer(two_by_two)
    settle_all(ledger)
    broker.messages.clear()

    said = producer(two_by_two).stdout

    assert said.count("already settled: nothing was sent") == 4
    assert said.count("0.750 (0.301 to 0.954)") == 4
    assert broker.messages == []
    assert "exports the runs and writes the table" in said


def test_a_settled_suite_says_of_which_runs_the_answers_are_not_of_the_weights_that_run_now(
    producer: Producer, two_by_two: Path, ledger: MemoryLedger, broker: MemoryBroker
) -> None:
    producer(two_by_two)
    settle_all(ledger)
    runs = {run.run_id: run for run in ledger.runs()}
    for run in runs.values():
        ledger.note_engine(run.run_id, EngineUsed(worker="w", since=0.0, engine={"weights": "aa"}))
        if run.spec.model == "small":
            broker.live = [live_worker("score.small", engine={"weights": "bb"})]

    told = " ".join(producer(two_by_two).stdout.split())
    found = producer.json(two_by_two)["runs"]

    (first, _) = [each["run_id"] for each in found if each["other_engines"] == {"weights": ["aa", "bb"]}]
    assert runs[first].spec.model == "small"
    assert f'those that answered {first} and 1 other run, in weights ("aa", "bb"); another name of the suite' in told


def test_what_was_asked_by_hand_under_another_name_is_told(
    producer: Producer, sets: tuple[Path, Path], ledger: MemoryLedger
) -> None:
    path = write_suite([{"name": "by hand", "file": "red.jsonl"}, {"name": "other", "file": "blue.jsonl"}])
    Producer(producer.session)("enqueue", "red.jsonl", "--run", "mine-alone")
    (first,) = ledger.runs()

    lines = [line for line in producer(path).stdout.splitlines() if line.startswith("already")]

    assert len(lines) == 1
    how = "; to take over those answers, repeat this command with --reuse"
    assert lines[0].endswith(f"in the same way as {first.run_id}{how}")


def test_a_set_that_was_changed_is_another_run_and_the_older_one_is_told(
    producer: Producer, two_by_two: Path, sets: tuple[Path, Path]
) -> None:
    old = [each["run_id"] for each in producer.json(two_by_two)["runs"]]
    sets[0].write_text(sets[0].read_text().replace("Red 3?", "Red 4?"))

    said = producer(two_by_two).stdout

    new = producer.json(two_by_two)["runs"][0]["run_id"]
    told = " ".join(said.split())
    assert f"{new}: in questions from {old[0]}, the last run of this name: all questions are asked" in told
    assert f"that one goes on as well, unless you end it: python -m producer cancel {old[0]}" in told
    assert f"in questions from {old[2]}" not in told


def test_another_model_is_asked_beside_what_stands(
    producer: Producer, sets: tuple[Path, Path], ledger: MemoryLedger
) -> None:
    entry = {"name": "a", "file": sets[0].name}
    producer(write_suite([entry], models=["small"]))
    settle_all(ledger)

    again = producer.json(write_suite([entry], models=["small", "large"]))["runs"]

    assert [each["submitted"] for each in again] == ["settled", "new"]


def test_failed_questions_of_a_settled_suite_are_told_and_exit_with_3(
    producer: Producer, two_by_two: Path, ledger: MemoryLedger
) -> None:
    producer(two_by_two)
    first = producer.json(two_by_two)["runs"][0]["run_id"]
    settle_next(ledger, first, Outcome.FAILED, Outcome.UNANSWERED)
    settle_all(ledger)

    said = producer(two_by_two, exit_code=3).stdout

    assert "1 unanswered · 1 failed" in said
    assert "1 × RequestRejected, for example q0: too long" in said
    assert f"python -m producer requeue {first} --failed" in said


def test_of_many_runs_with_failed_questions_the_first_are_told_and_how_many_more_there_are(
    producer: Producer, two_by_two: Path, ledger: MemoryLedger
) -> None:
    """The fourth run's failures were in the table, but nobody was told why, or how to ask them again."""
    runs = [each["run_id"] for each in producer.json(two_by_two)["runs"]]
    for run_id in runs:
        settle_next(ledger, run_id, Outcome.FAILED)
    settle_all(ledger)

    said = producer(two_by_two, exit_code=3).stdout

    assert [f"python -m producer requeue {each} --failed" in said for each in runs] == [True, True, True, False]
    assert "and 1 more run with failed questions; python -m producer export RUN says why" in said
