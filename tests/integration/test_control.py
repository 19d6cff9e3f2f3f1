"""Pause, resume, cancel, requeue, purge beside a real worker that is in the middle of the run."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from celery import Celery
from click.testing import CliRunner

from benchmarks.made_up import LETTERED
from contract import Mode, Outcome, RedisLedger, Run, RunState, keys
from contract.fleet import Fleet, WorkerRecord, WorkerState
from contract.queue import held_question_ids, queue_length, queued_runs
from contract.settings import Settings
from contract.spec import Sampling
from producer.cli import main
from tests.integration.holding import book
from tests.integration.runs import QUEUE, send, sent, wait_acknowledged, wait_finished
from tests.support import (
    SIMULATED_MODEL,
    interrupted_run,
    make_question,
    make_questions,
    open_run,
    settle,
    wait_until,
    worker,
    write_questions,
)
from workers.check_redis import check_redis
from workers.cli import main as workers_main

Verb = Callable[..., str]


@pytest.fixture
def verb(redis_url: str) -> Verb:
    """Runs `python -m producer …` on the test's server and returns what it printed."""

    def call(*words: object, exit_code: int = 0) -> str:
        result = CliRunner().invoke(main, [str(word) for word in words])
        assert result.exit_code == exit_code, result.output
        return result.stdout

    return call


def wait_settled(ledger: RedisLedger, run: Run, at_least: int) -> None:
    wait_until(lambda: ledger.counts(run.run_id).settled >= at_least, f"{at_least} verdicts of {run.run_id}")


def wait_nobody_holds(ledger: RedisLedger, run: Run) -> None:
    wait_until(
        lambda: (
            queue_length(ledger.client, QUEUE) == 0 and not held_question_ids(ledger.client, ["w0@test"], run.run_id)
        ),
        "every message to be gone",
    )


def let_the_audit_pass(ledger: RedisLedger, log: Path) -> None:
    """Lose a message of another run and see it found: every run was looked at by then."""
    run = open_run(ledger, make_questions(4), name="lost")
    wait_until(lambda: ledger.counts(run.run_id).finished, "the audit to find the lost message")
    assert f"run {run.run_id}: 4 questions in no message" in log.read_text()


def assert_each_settled_once(ledger: RedisLedger, run: Run) -> None:
    counts = ledger.counts(run.run_id)
    assert (counts.settled, counts.todo) == (run.questions, 0)
    assert all(verdict is not None for _, verdict in ledger.results(run.run_id))


@pytest.mark.parametrize("state", [RunState.PAUSED, RunState.CANCELLED])
def test_a_halted_run_stands_still_its_messages_are_gone_and_another_run_goes_on(
    app: Celery, redis_ledger: RedisLedger, tmp_path: Path, verb: Verb, state: RunState
) -> None:
    halted = sent(app, redis_ledger, 200, "halted")
    log = tmp_path / "log"
    with worker(log, batch_size=8, simulated={"call_ms": 250}):
        wait_settled(redis_ledger, halted, 8)
        verb("pause" if state is RunState.PAUSED else "cancel", halted.run_id)
        other = sent(app, redis_ledger, 40, "other")
        wait_until(lambda: redis_ledger.counts(other.run_id).finished, "the other run")
        wait_nobody_holds(redis_ledger, halted)
        stood_at = redis_ledger.counts(halted.run_id)
        assert 8 <= stood_at.settled < 200
        let_the_audit_pass(redis_ledger, log)
        assert redis_ledger.counts(halted.run_id) == stood_at
        sent_again = [line for line in log.read_text().splitlines() if "in no message" in line]
        assert not any(halted.run_id in line for line in sent_again)
        assert f"{200 - stood_at.settled} questions sent in" in verb("resume", halted.run_id)
        wait_until(lambda: redis_ledger.counts(halted.run_id).finished, "the resumed run")
    assert_each_settled_once(redis_ledger, halted)
    assert {verdict.attempts for _, verdict in redis_ledger.results(halted.run_id) if verdict} == {1}


def test_a_run_paused_and_resumed_all_the_time_loses_and_doubles_nothing(
    app: Celery, redis_ledger: RedisLedger, tmp_path: Path, verb: Verb
) -> None:
    run = sent(app, redis_ledger, 300, "restless")
    rounds = 0
    with worker(tmp_path / "log", batch_size=8, simulated={"call_ms": 200}):
        while not (before := redis_ledger.counts(run.run_id)).finished:
            verb("pause", run.run_id)
            verb("resume", run.run_id)
            rounds += 1
            wait_until(lambda seen=before.settled: redis_ledger.counts(run.run_id).settled > seen, "it to go on")  # type: ignore[misc]
    assert rounds > 5
    assert_each_settled_once(redis_ledger, run)
    assert "in no message" not in (tmp_path / "log").read_text(), "resuming left nothing for the audit to find"


def test_a_cancelled_run_is_finished_by_enqueuing_the_same_thing_again(
    redis_ledger: RedisLedger, tmp_path: Path, verb: Verb, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MCQUEUE_MODEL", SIMULATED_MODEL)
    file = write_questions(tmp_path / "questions.jsonl", make_questions(80))
    run_id = json.loads(verb("enqueue", file, "--json"))["run_id"]
    verb("cancel", run_id)
    with worker(tmp_path / "log", batch_size=16):
        wait_acknowledged(redis_ledger)
        assert redis_ledger.counts(run_id).settled == 0
        assert "was cancelled, now resumed: 80 of 80 unsettled, 80 re-sent" in verb("enqueue", file)
        wait_until(lambda: redis_ledger.counts(run_id).finished, "the run")
    assert_each_settled_once(redis_ledger, redis_ledger.run(run_id))


def test_failed_questions_that_are_requeued_are_scored_by_a_worker_that_can(
    app: Celery, redis_ledger: RedisLedger, tmp_path: Path, verb: Verb
) -> None:
    questions = [make_question(n, question="bad luck" if n % 5 == 0 else "fine") for n in range(40)]
    run = open_run(redis_ledger, questions)
    send(app, redis_ledger, run)
    with worker(tmp_path / "cannot", simulated={"reject_text": "bad luck"}):
        wait_finished(redis_ledger, run)
    assert redis_ledger.counts(run.run_id).of(Outcome.FAILED) == 8
    before = {q.id: found for q, found in redis_ledger.results(run.run_id)}
    assert "8 failed verdicts discarded; 8 questions sent in 1 message" in verb("requeue", run.run_id, "--failed")
    with worker(tmp_path / "can", name="w1"):
        wait_finished(redis_ledger, run)
    assert_each_settled_once(redis_ledger, run)
    assert redis_ledger.counts(run.run_id).of(Outcome.FAILED) == 0
    for question, verdict in redis_ledger.results(run.run_id):
        earlier = before[question.id]
        assert earlier is not None
        assert verdict is not None
        assert verdict == earlier if earlier.outcome is not Outcome.FAILED else verdict.attempts == 1


def test_requeue_beside_a_busy_worker_doubles_nothing(
    app: Celery, redis_ledger: RedisLedger, tmp_path: Path, verb: Verb
) -> None:
    run = sent(app, redis_ledger, 200, "busy")
    lists = keys.broker_lists(QUEUE)
    redis_ledger.client.ltrim(lists[2], 0, 19)  # thirty messages are lost
    with worker(tmp_path / "log", batch_size=8, simulated={"call_ms": 20}):
        for _ in range(5):
            verb("requeue", run.run_id)
        wait_finished(redis_ledger, run)
        wait_nobody_holds(redis_ledger, run)
    assert_each_settled_once(redis_ledger, run)


def test_a_run_purged_under_a_busy_worker_is_gone_and_the_next_one_is_scored(
    app: Celery, redis_ledger: RedisLedger, tmp_path: Path, verb: Verb
) -> None:
    gone = sent(app, redis_ledger, 200, "gone")
    with worker(tmp_path / "log", batch_size=8, simulated={"call_ms": 50}):
        wait_settled(redis_ledger, gone, 8)
        verb("purge", gone.run_id, "--yes")
        following = sent(app, redis_ledger, 20, "following")
        wait_until(lambda: redis_ledger.counts(following.run_id).finished, "the run after it")
        wait_nobody_holds(redis_ledger, gone)
    assert list(redis_ledger.client.scan_iter(f"mcqueue:run:{gone.run_id}*")) == []
    assert [run.run_id for run in redis_ledger.runs()] == [following.run_id]
    assert "Traceback" not in (tmp_path / "log").read_text()


def test_a_run_that_was_exported_half_way_and_purged_is_loaded_and_finished_by_a_worker(
    redis_ledger: RedisLedger, tmp_path: Path, verb: Verb, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MCQUEUE_ENGINE", "simulated")
    monkeypatch.setenv("MCQUEUE_MODEL", SIMULATED_MODEL)
    questions = write_questions(tmp_path / "exam.jsonl", make_questions(200))
    with worker(tmp_path / "first.log", batch_size=8, simulated={"call_ms": 100}):
        run = redis_ledger.run(json.loads(verb("enqueue", questions, "--json"))["run_id"])
        wait_settled(redis_ledger, run, 8)
        verb("pause", run.run_id)
        wait_nobody_holds(redis_ledger, run)
    verb("export", run.run_id, "--format", "jsonl", "--out", tmp_path)
    before, engines = list(redis_ledger.results(run.run_id)), redis_ledger.engines(run.run_id)
    verb("purge", run.run_id, "--yes")
    with worker(tmp_path / "second.log", batch_size=8):
        verb("load", tmp_path / run.run_id)
        assert list(redis_ledger.results(run.run_id)) == before
        assert [each.engine for each in redis_ledger.engines(run.run_id)] == [each.engine for each in engines]
        let_the_audit_pass(redis_ledger, tmp_path / "second.log")
        assert list(redis_ledger.results(run.run_id)) == before, "it is paused"
        verb("resume", run.run_id)
        wait_finished(redis_ledger, run)
    after = redis_ledger.results(run.run_id)
    assert all(then in (None, now) for (_, then), (_, now) in zip(before, after, strict=True))
    assert_each_settled_once(redis_ledger, run)


def test_the_messages_of_a_purged_run_ask_for_no_worker(
    verb: Verb, app: Celery, redis_ledger: RedisLedger, settings: Settings
) -> None:
    ours = settings.model_copy(update={"model": SIMULATED_MODEL, "engine": "simulated"})
    gone, going_on = (sent(app, redis_ledger, 8, name) for name in ("gone", "going-on"))
    assert f"{QUEUE}: 4 messages waiting, but no worker is ready" in said_by_check(ours)

    verb("purge", gone.run_id, "--yes")
    assert f"{QUEUE}: 2 messages waiting, but no worker is ready" in said_by_check(ours)
    verb("cancel", going_on.run_id)
    found = said_by_check(ours)
    assert f"{QUEUE}: 4 messages of runs that are purged, settled, paused or cancelled" in found
    assert not [each for each in found if "no worker is ready" in each]


def test_a_purge_leaves_what_is_enqueued_while_it_looks_at_the_queue(
    app: Celery, redis_ledger: RedisLedger, verb: Verb, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It deleted the new run's messages as well: where workers are started at the sight of messages, none were."""
    gone = sent(app, redis_ledger, 8, "gone")
    new: list[Run] = []

    def enqueued_right_afterwards(*asked: Any) -> Counter[str]:
        found = queued_runs(*asked)
        if not new:
            new.append(sent(app, redis_ledger, 8, "new"))
        return found

    monkeypatch.setattr("producer.broker.queued_runs", enqueued_right_afterwards)
    said = verb("purge", gone.run_id, "--yes")

    assert said == f"deleted {gone.run_id}; 2 messages of it are still queued, to be dropped by workers\n"
    assert queue_length(redis_ledger.client, QUEUE) == 4
    verb("purge", new[0].run_id, "--yes")
    assert queue_length(redis_ledger.client, QUEUE) == 0


@pytest.mark.parametrize("comes", [False, True])
def test_a_queue_from_which_a_message_is_taken_meanwhile_is_not_deleted(
    app: Celery, redis_ledger: RedisLedger, verb: Verb, monkeypatch: pytest.MonkeyPatch, comes: bool
) -> None:
    """Somebody serves it; what comes may be as much as what goes."""
    gone = sent(app, redis_ledger, 12, "gone")
    client = redis_ledger.client
    (waiting,) = (each for each in keys.broker_lists(QUEUE) if client.exists(each))

    def busy_right_afterwards(*asked: Any) -> Counter[str]:
        found = queued_runs(*asked)
        if redis_ledger.runs():
            taken = client.rpop(waiting)
            if comes:
                client.lpush(waiting, str(taken))
        return found

    monkeypatch.setattr("producer.broker.queued_runs", busy_right_afterwards)
    verb("purge", gone.run_id, "--yes")
    assert queue_length(client, QUEUE) == (3 if comes else 2)


def test_what_a_rescoring_that_was_cut_short_lacks_is_not_said_to_be_lost(
    settings: Settings, redis_ledger: RedisLedger
) -> None:
    """`requeue` sends none of it: `rescore` must be repeated."""
    ready = WorkerRecord(name="gpu0@test", model=SIMULATED_MODEL, state=WorkerState.READY, queue=QUEUE)
    Fleet(redis_ledger.client).join(ready)
    open_run(redis_ledger, make_questions(2), "rescored", rescored_from="another")
    assert said_by_check(settings) == [f"{QUEUE}: 0 messages waiting"]


def test_what_enqueue_has_written_and_is_about_to_send_is_not_said_to_be_lost(
    settings: Settings, redis_ledger: RedisLedger
) -> None:
    ready = WorkerRecord(name="gpu0@test", model=SIMULATED_MODEL, state=WorkerState.READY, queue=QUEUE)
    Fleet(redis_ledger.client).join(ready)
    interrupted_run(redis_ledger, make_questions(4), written=2)
    assert said_by_check(settings) == [f"{QUEUE}: 0 messages waiting"]


def test_a_worker_that_has_just_taken_messages_is_not_said_to_be_idle(
    settings: Settings, app: Celery, redis_ledger: RedisLedger
) -> None:
    """What it runs was asked of its record, which is as old as its last heartbeat."""
    client = redis_ledger.client
    Fleet(client).join(WorkerRecord(name="gpu0@test", model=SIMULATED_MODEL, state=WorkerState.READY, queue=QUEUE))
    run = sent(app, redis_ledger, 2, batch_size=2)
    (taken,) = (str(each) for name in keys.broker_lists(QUEUE) for each in client.lrange(name, 0, -1))
    client.delete(*keys.broker_lists(QUEUE))
    lost = f"{QUEUE} is empty and its workers are idle, despite 2 questions without a verdict"
    assert said_by_check(settings) == [f"{QUEUE}: 0 messages waiting", lost]

    book(redis_ledger, "gpu0@test", taken)
    assert said_by_check(settings) == [f"{QUEUE}: 0 messages waiting"]
    assert redis_ledger.counts(run.run_id).todo == 2


def said_by_check(settings: Settings) -> list[str]:
    return [each.found for each in check_redis([settings], {}) if each.what == "queue"]


def test_workers_commands_name_a_run_as_the_producers_do(app: Celery, redis_ledger: RedisLedger) -> None:
    run = sent(app, redis_ledger, 4, "alpha")

    def refusal(*words: str) -> str:
        result = CliRunner().invoke(workers_main, words)
        assert result.exit_code == 1
        return result.stderr

    for name in ("last", "alph", run.run_id):
        why = "has no texts in which rules would read a choice. Only the modes generate and vote have."
        assert refusal("rescore", name) == f"error: Run {run.run_id} (mode likelihood) {why}\n"
    assert refusal("rescore", "beta").startswith("error: No run 'beta' in the ledger")


def test_tokens_of_a_simulated_engine_are_refused_as_those_shown_would_be_another_model_s(
    app: Celery, redis_ledger: RedisLedger
) -> None:
    sent(app, redis_ledger, 1)
    words = ["tokens", "last", "q0", "--set", "engine=simulated", "--set", f"model={SIMULATED_MODEL}"]
    result = CliRunner().invoke(workers_main, words)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("error: engine: simulated: there is no model, so its tokens cannot be shown.")


@pytest.mark.usefixtures("redis_url")
def test_who_rescores_a_rescored_run_is_told_to_compare_it_with_the_run_that_has_the_texts(
    redis_ledger: RedisLedger,
) -> None:
    run = open_run(redis_ledger, make_questions(1), "texts", mode=Mode.GENERATE, sampling=Sampling(), prompt=LETTERED)
    settle(redis_ledger, run.run_id, "q0")
    for name in ("texts", "texts-rescored"):
        said = CliRunner().invoke(workers_main, ["rescore", name]).output
        new = redis_ledger.run_ids()[0]
        assert said.endswith(f"compare them: python -m producer compare {run.run_id} {new}\n")


@pytest.mark.usefixtures("redis_url")
def test_restarting_all_workers_where_there_are_none_says_so() -> None:
    result = CliRunner().invoke(workers_main, ["restart"])

    assert (result.exit_code, result.stderr) == (1, "error: No worker is alive. Start some: python -m workers up\n")
