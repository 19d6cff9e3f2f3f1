"""What `status` and `runs` tell."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest

from contract.fleet import WorkerState
from contract.ledger import MemoryLedger
from contract.verdict import Outcome, Verdict
from producer.broker import MemoryBroker
from tests.support import build_test_index, settle
from tests.unit.producer.conftest import Producer, WriteRows, live_worker, settle_whole


def test_runs_and_status_say_which_model_answers_and_how(producer: Producer, five: Path) -> None:
    producer("enqueue", five, "--set", "model=large", "--set", "mode=letter")

    (told,) = producer.json("runs")
    assert (told["model"], told["mode"]) == ("large", "letter")
    assert "large  letter" in producer("runs").stdout
    told_again = producer("status").stdout
    assert f"{five} · letter · model large · prompt lettered, version " in told_again
    assert " · chat template never\n" in told_again


#: Of the model that is asked unless another one is named.
QUEUE = "score.smollm2-135m-instruct"


def test_a_worker_that_takes_nothing_yet_is_told_apart_from_one_that_does(
    producer: Producer, five: Path, broker: MemoryBroker
) -> None:
    producer("enqueue", five)
    for name, state in (("gpu0", WorkerState.READY), ("gpu1", WorkerState.BOOTING)):
        broker.live.append(live_worker(QUEUE, name, state=state))

    assert "2 live: gpu0, gpu1 (booting)" in producer("status").stdout


def test_all_lines_of_a_status_are_of_the_same_look_at_the_workers(
    producer: Producer, five: Path, broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    producer("enqueue", five)
    looks = [[live_worker(QUEUE, "gpu0")]]  # at a second look, it would be gone
    monkeypatch.setattr(broker, "all_workers", looks.pop)

    assert "1 live: gpu0\n" in producer("status").stdout


def test_status_shows_counts_accuracy_queue_and_workers(
    producer: Producer, run_id: str, ledger: MemoryLedger, broker: MemoryBroker
) -> None:
    settle_whole(ledger, run_id, but=Outcome.FAILED)
    broker.live.append(live_worker(QUEUE, "gpu0", engine={"engine": "simulated"}))

    text = producer("status").stdout

    assert "5 of 5 (100.0 %)" in text
    assert "0.750  95 % interval 0.301 to 0.954 (3 of 4)" in text
    assert "chance    0.500" in text
    assert "correct 3 · wrong 0 · unanswered 0 · failed 1 · answered 1" in text
    assert "1 live: gpu0; the engine is simulated, its answers are meaningless" in text
    found = producer.json("status")
    assert (found["finished"], sum(found["queues"].values()), found["workers"][0]["name"]) == (True, 3, "gpu0")


def test_nobody_is_told_to_start_workers_for_a_cancelled_run(producer: Producer, run_id: str) -> None:
    start = "none live; start one: python -m workers up"
    for command, told in (("pause", True), ("cancel", False), ("resume", True)):
        producer(command, run_id)
        assert (start in producer("status").stdout) is told, "it is needed once a paused run goes on"


def test_status_of_a_run_with_failed_questions_names_what_says_why_and_what_asks_them_again(
    producer: Producer, run_id: str, ledger: MemoryLedger
) -> None:
    remedy = "failed    `export` says why, and `requeue --failed` asks them again once that is fixed\n"
    assert remedy not in producer("status").stdout
    settle_whole(ledger, run_id, but=Outcome.FAILED)
    assert remedy in producer("status").stdout


def test_the_accuracy_of_a_run_that_goes_on_is_said_to_be_over_what_is_settled_so_far(
    producer: Producer, run_id: str, ledger: MemoryLedger
) -> None:
    settle(ledger, run_id, *(f"q{n}" for n in range(2)), choice="B")

    for command in (("status",), ("export",)):
        assert "(2 of 2) over the 2 settled so far; unanswered" in producer(*command).stdout
    producer("pause", run_id)
    assert "(2 of 2) over the 2 settled so far; unanswered" in producer("status").stdout
    producer("resume", run_id)
    settle(ledger, run_id, *(f"q{n}" for n in range(2, 5)), outcome=Outcome.ANSWERED, choice="B")
    assert "over all questions; unanswered" in producer("status").stdout


def test_status_gives_no_accuracy_that_depends_on_which_unanswered_questions_have_a_key(
    producer: Producer, write_rows: WriteRows, ledger: MemoryLedger
) -> None:
    rows = [{"question": f"{n}?", "choices": ["a", "b"], "answer": None if n % 2 else "B"} for n in range(8)]
    run_id = producer.json("enqueue", write_rows(*rows))["run_id"]
    # All three with a key are right; of the two without one, one is unanswered and one failed.
    outcomes = [Outcome.CORRECT, Outcome.UNANSWERED, Outcome.CORRECT, Outcome.FAILED, Outcome.CORRECT]
    asked = [question for question, _ in ledger.results(run_id)]
    ledger.commit(run_id, [Verdict(question_id=q.id, outcome=each) for q, each in zip(asked, outcomes, strict=False)])
    producer("cancel", run_id)

    text = producer("status").stdout
    unknown = "it is not counted here which of the unanswered and failed questions have no key; `export` does"
    assert f"accuracy  unknown over all settled questions: {unknown}\n" in text
    assert "1.000  95 % interval 0.439 to 1.000 (3 of 3) over answered questions" in text
    assert "no key" not in text.replace(unknown, "")
    assert (producer.json("status")["accuracy_all"], producer.json("runs")[0]["accuracy_all"]) == (None, None)
    assert producer.json("export")["accuracy_all"]["value"] == 1.0


def test_runs_are_listed_newest_first(producer: Producer, five: Path) -> None:
    assert "There are no runs yet" in producer("runs").stderr
    producer("enqueue", five, "--run", "one")
    producer("enqueue", five, "--run", "two")

    lines = producer("runs").stdout.splitlines()
    assert lines[0].split()[0] == "run"
    assert [line.split("-")[0] for line in lines[1:]] == ["two", "one"]
    assert [each["total"] for each in producer.json("runs")] == [5, 5]


def test_runs_tells_apart_those_of_a_file_that_are_asked_with_passages_or_examples(
    producer: Producer, five: Path, tmp_path: Path
) -> None:
    index = build_test_index(tmp_path / "facts", ["A fact."])
    with_key = [row for row in map(json.loads, five.read_text().splitlines()) if row["answer"] is not None]
    Path("dev.jsonl").write_text(
        "".join(json.dumps({**row, "question": f"And {row['id']}?"}) + "\n" for row in with_key)
    )
    producer("enqueue", five)
    producer("enqueue", five, "--set", "rag.enabled=true", "--set", f"rag.index={index}")
    producer("enqueue", five, "--set", "few_shot={k: 2, file: dev.jsonl}")

    lines = producer("runs").stdout.splitlines()[1:]
    wanted = ("likelihood · 2 examples", "likelihood · passages from facts", "likelihood")
    for line, mode in zip(lines, wanted, strict=True):
        assert f"  {mode}  " in line
    assert [each["index"] for each in producer.json("runs")] == [None, "facts", None]


def test_a_run_without_any_key_is_told_to_have_none_at_any_time(
    producer: Producer, write_rows: WriteRows, ledger: MemoryLedger
) -> None:
    file = write_rows(*({"id": f"q{n}", "question": f"{n}?", "choices": ["a", "b"], "answer": None} for n in range(4)))
    run_id = producer.json("enqueue", file)["run_id"]
    for ids, outcome in (([], Outcome.FAILED), (["q0"], Outcome.FAILED), (["q1", "q2", "q3"], Outcome.UNANSWERED)):
        settle(ledger, run_id, *ids, outcome=outcome)

        for told in (producer("status").stdout, producer("export", exit_code=3 if "q3" in ids else 0).stdout):
            assert ["accuracy", "none: no question has a key"] in [line.split(maxsplit=1) for line in told.splitlines()]
        assert producer.json("runs")[0]["accuracy_all"] is None


def test_runs_that_do_not_fit_beside_each_other_keep_their_names_in_one_piece(
    producer: Producer, five: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = producer.json("enqueue", five, "--run", "a-name-as-long-as-one-made-of-file-and-model")["run_id"]
    monkeypatch.setattr("click.testing._NamedTextIOWrapper.isatty", lambda _: True)
    monkeypatch.setenv("COLUMNS", "80")

    first, *others = click.unstyle(producer("runs").stdout).splitlines()

    assert first == run_id
    assert "state running · settled 0/5 · accuracy - · chance 0.500" in " ".join(each.strip() for each in others)
    assert max(map(len, others)) <= 80


@pytest.mark.parametrize("variables", [{}, {"FORCE_COLOR": "1"}])
def test_runs_prints_a_line_for_each_run_where_programs_read_it_however_long_its_names_are(
    producer: Producer,
    tmp_path: Path,
    five: Path,
    ledger: MemoryLedger,
    monkeypatch: pytest.MonkeyPatch,
    variables: dict[str, str],
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    file = tmp_path / f"{'questions-' * 15}医学.jsonl"
    file.write_bytes(five.read_bytes())
    run_id = producer.json("enqueue", file, "--run", "a-name-of-a-run-" * 6)["run_id"]
    settle_whole(ledger, run_id, but=Outcome.FAILED)

    _, line = producer("runs").stdout.splitlines()

    assert line.split()[0] == run_id
    assert "5/5, 1 failed" in line
    assert line.rstrip().endswith(file.name)


def test_runs_says_how_many_questions_failed(producer: Producer, five: Path, ledger: MemoryLedger) -> None:
    settle_whole(ledger, producer.json("enqueue", five)["run_id"], but=Outcome.FAILED)

    assert "5/5, 1 failed" in producer("runs").stdout
