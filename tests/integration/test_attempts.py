"""Questions that kill what asks them, fail for an unforeseen reason, or wait for their next attempt."""

from __future__ import annotations

from pathlib import Path

import pytest
from celery import Celery

from contract import Outcome, RedisLedger, Verdict, keys
from contract.queue import queue_length
from tests.integration.launching import launched
from tests.integration.runs import QUEUE, send, verdicts, wait_acknowledged, wait_finished
from tests.support import PATIENCE_S, make_question, make_questions, open_run, wait_until, worker


def test_a_question_that_kills_its_worker_is_convicted_and_its_company_scored(
    app: Celery, redis_ledger: RedisLedger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    questions = make_questions(12)
    questions[5] = make_question(5, question="poison?")
    run = open_run(redis_ledger, questions)
    send(app, redis_ledger, run)
    monkeypatch.setenv("MCQUEUE_SIMULATED__KILL_TEXT", "poison")
    with launched(tmp_path, "batch_size=12", "max_attempts=3"):
        wait_finished(redis_ledger, run)
    outcomes = {verdict.question_id: verdict for verdict in verdicts(redis_ledger, run)}
    assert [each.question_id for each in outcomes.values() if each.outcome is Outcome.FAILED] == ["q5"]
    assert outcomes["q5"].error is not None
    assert outcomes["q5"].error.type == "TooManyAttempts"


def test_an_error_that_nobody_foresaw_ends_as_failed_with_every_attempts_reason_and_its_company_is_scored(
    app: Celery, redis_ledger: RedisLedger, tmp_path: Path
) -> None:
    questions = make_questions(12)
    questions[5] = make_question(5, question="odd?")
    run = open_run(redis_ledger, questions)
    send(app, redis_ledger, run)
    with worker(tmp_path / "log", batch_size=12, max_attempts=3, simulated={"bug_text": "odd"}):
        wait_until(lambda: redis_ledger.counts(run.run_id).settled == 11, "its company")
        wait_finished(redis_ledger, run)
        wait_acknowledged(redis_ledger)
    outcomes = {verdict.question_id: verdict for verdict in verdicts(redis_ledger, run)}
    assert [each.question_id for each in outcomes.values() if each.outcome is Outcome.FAILED] == ["q5"]
    error = outcomes["q5"].error
    assert error is not None
    told = "; ".join(["w0@test: ZeroDivisionError: simulated bug"] * 3)
    assert (error.type, error.message) == ("TooManyAttempts", f"attempted 3 times: {told}")
    assert outcomes["q5"].attempts == 3
    assert {each.attempts for name, each in outcomes.items() if name != "q5"} == {1}


def test_a_question_that_waits_for_its_next_attempt_keeps_no_others_waiting(
    app: Celery, redis_ledger: RedisLedger, tmp_path: Path
) -> None:
    """Between its attempts, of 1, 2, 4 s, it kept the place of a batch."""
    faulty = open_run(redis_ledger, [make_question(0, question="odd?")], name="faulty")
    send(app, redis_ledger, faulty)
    with worker(
        tmp_path / "log",
        batches_in_flight=1,
        max_batches_in_flight=1,
        batch_timeout=0.01,
        simulated={"bug_text": "odd", "call_ms": 1},
    ):
        other = open_run(redis_ledger, make_questions(4), name="other")
        wait_until(lambda: len(redis_ledger.troubles(faulty.run_id, "q0")) == 4, "the fourth attempt")
        send(app, redis_ledger, other)
        wait_finished(redis_ledger, other)
        assert len(redis_ledger.troubles(faulty.run_id, "q0")) == 4, "within its pause of five seconds"
        assert redis_ledger.client.hlen(keys.unacked("w0@test")) == 1, "its worker keeps it"
        wait_finished(redis_ledger, faulty)
    assert queue_length(redis_ledger.client, QUEUE) == 0


def test_a_held_question_of_a_drained_worker_is_queued_again(
    app: Celery, redis_ledger: RedisLedger, tmp_path: Path
) -> None:
    faulty = open_run(redis_ledger, [make_question(0, question="odd?")], name="faulty")
    send(app, redis_ledger, faulty)
    with worker(tmp_path / "log", simulated={"bug_text": "odd", "call_ms": 1}) as ending:
        wait_until(lambda: len(redis_ledger.troubles(faulty.run_id, "q0")) == 3, "the third attempt")
        ending.terminate()
        assert ending.wait(PATIENCE_S) == 0
    assert queue_length(redis_ledger.client, QUEUE) == 1
    assert not redis_ledger.client.exists(keys.unacked("w0@test"))
    with worker(tmp_path / "log"):
        wait_finished(redis_ledger, faulty)
    assert redis_ledger.counts(faulty.run_id).of(Outcome.FAILED) == 0, "the next worker has no such fault"


def test_a_question_that_no_worker_can_read_ends_as_failed_and_its_company_is_scored(
    app: Celery, redis_ledger: RedisLedger, tmp_path: Path
) -> None:
    run = open_run(redis_ledger, make_questions(8))
    redis_ledger.client.hset(keys.RunKeys(run.run_id).questions, "q3", '{"id": "q3", "question": ["no text"]}')
    send(app, redis_ledger, run, batch_size=8)
    with worker(tmp_path / "log", batch_size=8, max_attempts=2):
        wait_until(lambda: redis_ledger.counts(run.run_id).finished, "every question to end")
        wait_acknowledged(redis_ledger)
    assert redis_ledger.counts(run.run_id).of(Outcome.FAILED) == 1
    stored = Verdict.model_validate_json(str(redis_ledger.client.hget(keys.RunKeys(run.run_id).verdicts, "q3")))
    assert stored.error is not None
    assert stored.error.message.count("ValidationError") == 2
