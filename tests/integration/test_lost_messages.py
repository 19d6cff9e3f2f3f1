"""What becomes of questions when a worker dies or a message is lost."""

from __future__ import annotations

from pathlib import Path

import pytest
from celery import Celery

from contract import RedisLedger, keys
from contract.audit import missing
from contract.fleet import Fleet
from contract.queue import publish, queue_length
from tests.integration.holding import book
from tests.integration.runs import QUEUE, send, sent, verdicts, wait_acknowledged, wait_finished
from tests.support import SIMULATED_MODEL, make_questions, open_run, settle, wait_until, worker
from workers.janitor import Janitor


def test_a_worker_killed_while_runs_take_turns_loses_nothing_and_doubles_nothing(
    app: Celery, redis_ledger: RedisLedger, tmp_path: Path
) -> None:
    runs = [sent(app, redis_ledger, 300, name) for name in "ab"]
    with worker(tmp_path / "first", batch_size=8, simulated={"call_ms": 40}) as first:
        wait_until(lambda: redis_ledger.counts(runs[1].run_id).settled >= 40, "a part of the second run")
        first.kill()
        first.wait()
    assert not any(redis_ledger.counts(run.run_id).finished for run in runs)
    with worker(tmp_path / "second", batch_size=8):
        wait_finished(redis_ledger, *runs)
        wait_acknowledged(redis_ledger)
    for run in runs:
        assert redis_ledger.counts(run.run_id).settled == len(verdicts(redis_ledger, run)) == 300


def test_a_dead_workers_messages_are_taken_over_by_another(
    app: Celery, redis_ledger: RedisLedger, tmp_path: Path
) -> None:
    run = open_run(redis_ledger, make_questions(24))
    with worker(tmp_path / "slow", name="slow", batch_size=8, simulated={"call_ms": 60_000}) as slow:
        send(app, redis_ledger, run)
        wait_until(lambda: redis_ledger.client.hlen(keys.unacked("slow@test")) > 0, "the slow worker to take messages")
        slow.kill()
        slow.wait()
        with worker(tmp_path / "other", name="other", batch_size=8):
            wait_finished(redis_ledger, run)
    assert "worker slow@test is gone" in (tmp_path / "other").read_text()


def test_a_message_that_the_broker_lost_is_found_and_sent_again(
    app: Celery, redis_ledger: RedisLedger, tmp_path: Path
) -> None:
    run = sent(app, redis_ledger, 40)
    queue = keys.broker_lists(keys.score_queue(SIMULATED_MODEL))[2]
    assert redis_ledger.client.lpop(queue) is not None
    assert redis_ledger.client.rpop(queue) is not None
    with worker(tmp_path / "log"):
        wait_finished(redis_ledger, run)
    assert "8 questions in no message" in (tmp_path / "log").read_text()


def test_what_is_in_no_message_while_none_waits_is_sent_in_the_second_round(
    janitor: Janitor, redis_ledger: RedisLedger
) -> None:
    run = open_run(redis_ledger, make_questions(4))
    janitor.round()
    assert queue_length(redis_ledger.client, QUEUE) == 0, "once may be a message on its way"
    janitor.round()
    assert queue_length(redis_ledger.client, QUEUE) == 1
    assert missing(redis_ledger, run) == []


def test_what_is_on_its_way_once_and_then_once_more_is_not_sent_twice(
    janitor: Janitor, app: Celery, redis_ledger: RedisLedger
) -> None:
    run = open_run(redis_ledger, make_questions(4))
    janitor.round()
    send(app, redis_ledger, run)
    janitor.round()
    redis_ledger.client.delete(keys.broker_lists(QUEUE)[2])
    janitor.round()
    assert queue_length(redis_ledger.client, QUEUE) == 0, "it was in a message between the two"


def test_a_lost_message_is_found_although_messages_of_other_runs_still_wait(
    janitor: Janitor, app: Celery, redis_ledger: RedisLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, waiting = (open_run(redis_ledger, make_questions(8), name=name) for name in ("begun", "waiting"))
    settle(redis_ledger, begun.run_id, "q0")
    send(app, redis_ledger, waiting)
    publish(app, QUEUE, begun.run_id, ["q1", "q2", "q3"], 4)  # the other four are in no message
    monkeypatch.setattr("workers.stall.FIRST_S", 0.0)
    janitor.round()
    assert queue_length(redis_ledger.client, QUEUE) == 3, "once may be a message on its way"
    janitor.round()
    assert queue_length(redis_ledger.client, QUEUE) == 4
    assert missing(redis_ledger, begun) == []


def test_a_lost_message_is_found_although_nothing_of_its_run_is_settled_and_others_wait(
    janitor: Janitor, app: Celery, redis_ledger: RedisLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost, waiting = (open_run(redis_ledger, make_questions(4), name=name) for name in ("lost", "waiting"))
    send(app, redis_ledger, waiting)
    monkeypatch.setattr("workers.stall.FIRST_S", 0.0)
    janitor.round()
    janitor.round()
    assert missing(redis_ledger, lost) == []


def test_what_a_worker_took_and_had_not_noted_when_it_died_is_found_at_once_although_others_wait(
    janitor: Janitor, app: Celery, redis_ledger: RedisLedger
) -> None:
    taken, waiting = (open_run(redis_ledger, make_questions(4), name=name) for name in ("taken", "waiting"))
    send(app, redis_ledger, waiting)
    redis_ledger.client.sadd(keys.workers(), "gone@test")  # without a record, and without books
    janitor.round()
    assert missing(redis_ledger, taken) == []
    assert Fleet(redis_ledger.client).names() == []


def test_what_a_dead_worker_held_goes_back_and_what_it_had_not_noted_is_found_at_once(
    janitor: Janitor, app: Celery, redis_ledger: RedisLedger
) -> None:
    held, taken, waiting = (open_run(redis_ledger, make_questions(4), name=name) for name in ("held", "taken", "waits"))
    for run in (held, waiting):
        send(app, redis_ledger, run)
    book(redis_ledger, "gone@test", str(redis_ledger.client.rpop(keys.broker_lists(QUEUE)[2])))
    redis_ledger.client.sadd(keys.workers(), "gone@test")
    janitor.round()
    assert not redis_ledger.client.exists(keys.unacked("gone@test"))
    assert queue_length(redis_ledger.client, QUEUE) == 3
    assert missing(redis_ledger, held) == missing(redis_ledger, taken) == []
    janitor.round()
    assert Fleet(redis_ledger.client).names() == []
