"""What becomes of questions when a worker, a message or Redis is lost, or a question kills what asks it."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path
from typing import NoReturn

import pytest
from celery import Celery

from contract import Outcome, RedisLedger, Settings, Verdict, keys, load_settings
from contract.audit import missing
from contract.errors import RedisUnreachable, WritesRefused
from contract.fleet import LEASE_S, Fleet
from contract.queue import make_celery, publish, queue_length
from tests.integration.launching import begun, launched
from tests.integration.runs import QUEUE, send, verdicts, wait_acknowledged, wait_finished
from tests.support import (
    PATIENCE_S,
    SIMULATED_MODEL,
    make_question,
    make_questions,
    open_run,
    settle,
    url_of,
    valkey,
    wait_until,
    worker,
)
from workers.janitor import Janitor


def test_a_killed_worker_loses_nothing_and_doubles_nothing(
    app: Celery, redis_ledger: RedisLedger, tmp_path: Path
) -> None:
    run = open_run(redis_ledger, make_questions(200))
    send(app, redis_ledger, run)
    with worker(tmp_path / "first", batch_size=8, simulated={"call_ms": 250}) as first:
        wait_until(lambda: redis_ledger.counts(run.run_id).settled >= 40, "a part of the run")
        first.kill()
        first.wait()
    assert not redis_ledger.counts(run.run_id).finished
    with worker(tmp_path / "second", batch_size=8):
        wait_finished(redis_ledger, run)
        wait_acknowledged(redis_ledger)
    assert len(verdicts(redis_ledger, run)) == 200
    assert redis_ledger.counts(run.run_id).settled == 200


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
    run = open_run(redis_ledger, make_questions(40))
    send(app, redis_ledger, run)
    queue = keys.broker_lists(keys.score_queue(SIMULATED_MODEL))[2]
    assert redis_ledger.client.lpop(queue) is not None
    assert redis_ledger.client.rpop(queue) is not None
    with worker(tmp_path / "log"):
        wait_finished(redis_ledger, run)
    assert "8 questions in no message" in (tmp_path / "log").read_text()


def test_what_is_in_no_message_while_none_waits_is_sent_in_the_second_round(
    settings: Settings, app: Celery, redis_ledger: RedisLedger
) -> None:
    run = open_run(redis_ledger, make_questions(4))
    janitor = Janitor(settings, app, "w0@test", QUEUE)
    janitor.round()
    assert queue_length(redis_ledger.client, QUEUE) == 0, "once may be a message on its way"
    janitor.round()
    assert queue_length(redis_ledger.client, QUEUE) == 1
    assert missing(redis_ledger, run) == []


def test_what_is_on_its_way_once_and_then_once_more_is_not_sent_twice(
    settings: Settings, app: Celery, redis_ledger: RedisLedger
) -> None:
    run = open_run(redis_ledger, make_questions(4))
    janitor = Janitor(settings, app, "w0@test", QUEUE)
    janitor.round()
    send(app, redis_ledger, run)
    janitor.round()
    redis_ledger.client.delete(keys.broker_lists(QUEUE)[2])
    janitor.round()
    assert queue_length(redis_ledger.client, QUEUE) == 0, "it was in a message between the two"


def test_a_lost_message_is_found_although_messages_of_other_runs_still_wait(
    settings: Settings, app: Celery, redis_ledger: RedisLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, waiting = (open_run(redis_ledger, make_questions(8), name=name) for name in ("begun", "waiting"))
    settle(redis_ledger, begun.run_id, "q0")
    send(app, redis_ledger, waiting)
    publish(app, QUEUE, begun.run_id, ["q1", "q2", "q3"], 4)  # the other four are in no message
    monkeypatch.setattr("workers.stall.FIRST_S", 0.0)
    janitor = Janitor(settings, app, "w0@test", QUEUE)
    janitor.round()
    assert queue_length(redis_ledger.client, QUEUE) == 3, "once may be a message on its way"
    janitor.round()
    assert queue_length(redis_ledger.client, QUEUE) == 4
    assert missing(redis_ledger, begun) == []


def test_a_lost_message_is_found_although_nothing_of_its_run_is_settled_and_others_wait(
    settings: Settings, app: Celery, redis_ledger: RedisLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost, waiting = (open_run(redis_ledger, make_questions(4), name=name) for name in ("lost", "waiting"))
    send(app, redis_ledger, waiting)
    monkeypatch.setattr("workers.stall.FIRST_S", 0.0)
    janitor = Janitor(settings, app, "w0@test", QUEUE)
    janitor.round()
    janitor.round()
    assert missing(redis_ledger, lost) == []


def test_what_a_worker_took_and_had_not_noted_when_it_died_is_found_at_once_although_others_wait(
    settings: Settings, app: Celery, redis_ledger: RedisLedger
) -> None:
    taken, waiting = (open_run(redis_ledger, make_questions(4), name=name) for name in ("taken", "waiting"))
    send(app, redis_ledger, waiting)
    redis_ledger.client.sadd(keys.workers(), "gone@test")  # without a record, and without books
    Janitor(settings, app, "w0@test", QUEUE).round()
    assert missing(redis_ledger, taken) == []
    assert Fleet(redis_ledger.client).names() == []


def test_what_a_dead_worker_held_goes_back_and_what_it_had_not_noted_is_found_at_once(
    settings: Settings, app: Celery, redis_ledger: RedisLedger
) -> None:
    held, taken, waiting = (open_run(redis_ledger, make_questions(4), name=name) for name in ("held", "taken", "waits"))
    for run in (held, waiting):
        send(app, redis_ledger, run)
    book(redis_ledger, "gone@test", str(redis_ledger.client.rpop(keys.broker_lists(QUEUE)[2])))
    redis_ledger.client.sadd(keys.workers(), "gone@test")
    janitor = Janitor(settings, app, "w0@test", QUEUE)
    janitor.round()
    assert not redis_ledger.client.exists(keys.unacked("gone@test"))
    assert queue_length(redis_ledger.client, QUEUE) == 3
    assert missing(redis_ledger, held) == missing(redis_ledger, taken) == []
    janitor.round()
    assert Fleet(redis_ledger.client).names() == []


def book(ledger: RedisLedger, worker: str, message: str) -> None:
    """Record that `worker` holds this message."""
    ledger.client.zadd(keys.unacked_options(worker)["unacked_index_key"], {"tag": time.time()})
    ledger.client.hset(keys.unacked(worker), "tag", json.dumps([json.loads(message), "", QUEUE]))


def test_a_run_that_cannot_be_audited_is_not_the_others_trouble(
    settings: Settings, app: Celery, redis_ledger: RedisLedger, caplog: pytest.LogCaptureFixture
) -> None:
    broken, lost = (open_run(redis_ledger, make_questions(4), name=name) for name in ("broken", "lost"))
    redis_ledger.client.set(keys.RunKeys(broken.run_id).counts, "no hash")
    janitor = Janitor(settings, app, "w0@test", QUEUE)
    janitor.audit_soon()
    janitor.round()
    assert f"run {broken.run_id}: audit skipped: " in caplog.text
    assert missing(redis_ledger, lost) == []


@pytest.mark.parametrize("noticed", ["contract.fleet.Fleet.alive", "workers.janitor.looks_stalled"])
def test_after_redis_was_away_nobody_is_taken_for_dead_before_all_could_beat_again(
    settings: Settings, app: Celery, redis_ledger: RedisLedger, monkeypatch: pytest.MonkeyPatch, noticed: str
) -> None:
    open_run(redis_ledger, make_questions(1))
    janitor, fleet = Janitor(settings, app, "w0@test", QUEUE), Fleet(redis_ledger.client)
    with monkeypatch.context() as away:
        away.setattr(noticed, _raise_unreachable)
        with pytest.raises(RedisUnreachable):
            janitor.round()
    redis_ledger.client.sadd(keys.workers(), "late@test", "w0@test")  # whose leases ran out meanwhile
    janitor.round()
    assert fleet.names() == ["late@test", "w0@test"]
    later = time.monotonic() + LEASE_S
    monkeypatch.setattr("workers.janitor.time.monotonic", lambda: later)
    janitor.round()
    assert fleet.names() == ["w0@test"], "its own worker is no dead one"


def _raise_unreachable(*_: object) -> None:
    raise RedisUnreachable("away")


def test_a_janitor_reads_what_an_open_run_asks_once_and_not_in_every_round(
    settings: Settings, app: Celery, redis_ledger: RedisLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = open_run(redis_ledger, make_questions(4))
    send(app, redis_ledger, run)
    janitor = Janitor(settings, app, "w0@test", QUEUE)
    janitor.round()
    monkeypatch.setattr(RedisLedger, "run", lambda *_: pytest.fail("read again"))
    janitor.round()


def test_a_run_that_is_purged_while_a_janitor_looks_around_is_no_warning(
    settings: Settings,
    app: Celery,
    redis_ledger: RedisLedger,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    run = open_run(redis_ledger, make_questions(4))
    send(app, redis_ledger, run)
    janitor = Janitor(settings, app, "w0@test", QUEUE)
    monkeypatch.setattr(RedisLedger, "open_runs", lambda _: ["asked-by-http", run.run_id])
    janitor.round()
    assert not caplog.messages
    redis_ledger.purge(run.run_id)  # which it knows from the round before
    janitor.round()
    assert not caplog.messages


def test_a_message_that_was_lost_with_the_connection_is_found_at_once_although_others_wait(
    settings: Settings, app: Celery, redis_ledger: RedisLedger
) -> None:
    lost, waiting = (open_run(redis_ledger, make_questions(4), name=name) for name in ("lost", "waiting"))
    send(app, redis_ledger, waiting)
    janitor = Janitor(settings, app, "w0@test", QUEUE)
    janitor.audit_soon()
    janitor.round()
    assert missing(redis_ledger, lost) == []


def test_a_reconnect_while_the_last_ones_losses_are_looked_for_is_not_forgotten(
    settings: Settings, app: Celery, monkeypatch: pytest.MonkeyPatch
) -> None:
    janitor = Janitor(settings, app, "w0@test", QUEUE)
    looked: list[bool] = []

    def look(*, thoroughly: bool) -> None:
        looked.append(thoroughly)
        if len(looked) == 1:
            janitor.audit_soon()
        if len(looked) == 2:
            raise RedisUnreachable("away again")

    monkeypatch.setattr(janitor, "look", look)
    janitor.audit_soon()
    janitor.round()
    with pytest.raises(RedisUnreachable):
        janitor.round()
    janitor.round()
    janitor.round()
    assert looked == [True, True, True, False]


def test_the_losses_of_a_dead_worker_are_looked_for_again_if_redis_went_away_meanwhile(
    settings: Settings, app: Celery, redis_ledger: RedisLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    redis_ledger.client.sadd(keys.workers(), "dead@test")
    janitor = Janitor(settings, app, "w0@test", QUEUE)
    looked: list[bool] = []

    def look(*, thoroughly: bool) -> None:
        looked.append(thoroughly)
        if len(looked) == 1:
            raise RedisUnreachable("away")

    monkeypatch.setattr(janitor, "look", look)
    with pytest.raises(RedisUnreachable):
        janitor.round()
    janitor.round()
    janitor.round()
    assert looked == [True, True, False]


@pytest.mark.parametrize("trouble", [RedisUnreachable("away"), WritesRefused("full")], ids=["away", "full"])
def test_losses_that_redis_did_not_take_again_are_looked_for_in_the_next_round(
    settings: Settings,
    app: Celery,
    redis_ledger: RedisLedger,
    monkeypatch: pytest.MonkeyPatch,
    trouble: RedisUnreachable | WritesRefused,
) -> None:
    lost, waiting = (open_run(redis_ledger, make_questions(4), name=name) for name in ("lost", "waiting"))
    send(app, redis_ledger, waiting)
    janitor = Janitor(settings, app, "w0@test", QUEUE)
    janitor.audit_soon()

    def refuse(*_: object) -> NoReturn:
        raise trouble

    with monkeypatch.context() as away:
        away.setattr("workers.janitor.heal", refuse)
        with pytest.raises(type(trouble)):
            janitor.round()
    janitor.round()
    assert missing(redis_ledger, lost) == []


def test_a_janitor_says_nothing_of_runs_of_which_nothing_is_lost_and_remembers_none_that_is_over(
    settings: Settings, app: Celery, redis_ledger: RedisLedger, caplog: pytest.LogCaptureFixture
) -> None:
    """The HTTP server makes a run of each request."""
    run = open_run(redis_ledger, make_questions(1))
    send(app, redis_ledger, run)
    janitor = Janitor(settings, app, "w0@test", QUEUE)
    janitor.audit_soon()
    janitor.round()
    janitor.round()
    assert list(janitor._quiet._runs) == [run.run_id]
    settle(redis_ledger, run.run_id, "q0")
    janitor.round()
    assert (list(janitor._quiet._runs), caplog.messages) == ([], [])


def test_a_janitor_looks_after_the_runs_of_its_own_queue_and_leaves_others_to_theirs(
    settings: Settings, app: Celery, redis_ledger: RedisLedger
) -> None:
    run = open_run(redis_ledger, make_questions(1))
    for queue, found in (("score.another", ["q0"]), (QUEUE, [])):
        janitor = Janitor(settings, app, "w0@test", queue)
        janitor.audit_soon()
        janitor.round()
        assert missing(redis_ledger, run) == found


def break_connections(ledger: RedisLedger, *logs: Path) -> None:
    """End every connection but the test's; return once each worker, which writes one of `logs`, waits for messages."""

    def breaks() -> list[int]:
        return [log.read_text().count("Connection to broker lost") for log in logs]

    before = breaks()
    ledger.client.client_kill_filter(_type="normal", skipme=True)
    wait_until(lambda: all(new > old for new, old in zip(breaks(), before, strict=True)), "the breaks to be noticed")
    wait_until(lambda: waiting_workers(ledger) == len(logs), "the workers to be connected again")


def waiting_workers(ledger: RedisLedger) -> int:
    """How many workers wait for a message at this moment."""
    return sum(each["cmd"] == "brpop" for each in ledger.client.client_list())


def test_a_batch_goes_on_where_it_runs_however_often_the_connections_break(
    app: Celery, redis_ledger: RedisLedger, tmp_path: Path
) -> None:
    run = open_run(redis_ledger, make_questions(8))
    send(app, redis_ledger, run)
    busy, idle = tmp_path / "busy", tmp_path / "idle"
    with worker(busy, batch_size=8, max_attempts=2, simulated={"call_ms": 15_000}):
        wait_until(lambda: begun(redis_ledger, run), "the batch to begin")
        with worker(idle, name="idle", batch_size=8, max_attempts=2):
            for _ in range(4):
                break_connections(redis_ledger, busy, idle)
            wait_finished(redis_ledger, run)
            for name in ("w0@test", "idle@test"):
                wait_acknowledged(redis_ledger, name)
                assert not redis_ledger.client.exists(keys.unacked_options(name)["unacked_index_key"])
    assert {(each.worker, each.attempts, each.outcome is Outcome.FAILED) for each in verdicts(redis_ledger, run)} == {
        ("w0@test", 1, False)
    }


def test_messages_that_wait_for_a_batch_go_back_when_the_worker_stops_after_a_reconnect(
    app: Celery, redis_ledger: RedisLedger, tmp_path: Path
) -> None:
    run = open_run(redis_ledger, make_questions(12))
    send(app, redis_ledger, run)
    log, held = tmp_path / "log", keys.unacked("w0@test")
    slow = {"call_ms": 8_000}
    with worker(
        log, batch_size=8, batch_timeout=1.0, batches_in_flight=1, max_batches_in_flight=1, simulated=slow
    ) as busy:
        wait_until(lambda: begun(redis_ledger, run), "the batch to begin")
        break_connections(redis_ledger, log)
        assert redis_ledger.client.hlen(held) == 3
        busy.send_signal(signal.SIGTERM)
        assert busy.wait(timeout=PATIENCE_S) == 0
    assert [each.attempts for each in verdicts(redis_ledger, run)] == [1] * 8
    assert not redis_ledger.client.exists(held)
    assert queue_length(redis_ledger.client, QUEUE) == 1


def test_a_message_that_a_broken_connection_never_delivered_goes_back_to_the_queue(
    app: Celery, redis_ledger: RedisLedger, tmp_path: Path
) -> None:
    with worker(tmp_path / "log"):
        run = open_run(redis_ledger, make_questions(4))
        publish(app, "elsewhere", run.run_id, ["q0", "q1", "q2", "q3"], 4)
        book(redis_ledger, "w0@test", str(redis_ledger.client.lpop(keys.broker_lists("elsewhere")[2])))
        break_connections(redis_ledger, tmp_path / "log")
        wait_finished(redis_ledger, run)
        wait_acknowledged(redis_ledger)


def test_a_batch_that_still_gathers_when_the_connection_breaks_leaves_when_its_time_is_up(
    app: Celery, redis_ledger: RedisLedger, tmp_path: Path
) -> None:
    run = open_run(redis_ledger, make_questions(3))
    with worker(tmp_path / "log", batch_size=64, batch_timeout=10.0):
        send(app, redis_ledger, run)
        wait_until(lambda: redis_ledger.client.exists(keys.unacked("w0@test")) > 0, "the message to be taken")
        break_connections(redis_ledger, tmp_path / "log")
        wait_finished(redis_ledger, run)
    assert [each.attempts for each in verdicts(redis_ledger, run)] == [1] * 3


def test_messages_that_went_back_to_the_queue_are_taken_again_by_the_same_worker(
    app: Celery, redis_ledger: RedisLedger, tmp_path: Path
) -> None:
    run = open_run(redis_ledger, make_questions(40))
    attempts = keys.RunKeys(run.run_id).attempts
    redis_ledger.client.set(attempts, "no hash: every beginning fails")
    with worker(tmp_path / "log", batch_size=64):
        send(app, redis_ledger, run)
        wait_until(lambda: (tmp_path / "log").read_text().count("is requeued") >= 3, "refusals")
        redis_ledger.client.delete(attempts)
        wait_finished(redis_ledger, run)
        wait_acknowledged(redis_ledger)
    assert len(verdicts(redis_ledger, run)) == 40


def open_unreadable_run(ledger: RedisLedger) -> None:
    ledger.client.set(keys.RunKeys("from-the-future").meta, '{"spec": {"mode": "telepathy"}}')
    ledger.client.sadd(keys.open_runs(), "from-the-future")


def test_a_janitor_says_of_a_run_that_this_version_cannot_read_so_once_and_not_in_every_round(
    settings: Settings, app: Celery, redis_ledger: RedisLedger, caplog: pytest.LogCaptureFixture
) -> None:
    open_unreadable_run(redis_ledger)
    janitor = Janitor(settings, app, "w0@test", QUEUE)
    for _ in range(3):
        janitor.round()
    (told,) = caplog.messages
    assert told.startswith("run from-the-future: audit skipped")


def test_a_run_that_this_version_cannot_read_is_not_the_others_trouble(
    app: Celery, redis_ledger: RedisLedger, tmp_path: Path
) -> None:
    open_unreadable_run(redis_ledger)
    run = open_run(redis_ledger, make_questions(20))
    send(app, redis_ledger, run)
    assert redis_ledger.client.lpop(keys.broker_lists(keys.score_queue(SIMULATED_MODEL))[2]) is not None
    with worker(tmp_path / "log"):
        wait_finished(redis_ledger, run)
        assert [each.name for each in Fleet(redis_ledger.client).alive()] == ["w0@test"]
    assert "run from-the-future: audit skipped" in (tmp_path / "log").read_text()


def test_a_restarted_redis_costs_nothing_and_partial_batches_still_leave(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "valkey"
    with valkey(folder) as server:
        monkeypatch.setenv("MCQUEUE_REDIS_URL", url_of(server))
        settings = load_settings(None, [f"model={SIMULATED_MODEL}"])
        ledger, app, port = RedisLedger.connect(settings), make_celery(settings), server.port
        run = open_run(ledger, make_questions(90))
        send(app, ledger, run)
        with worker(tmp_path / "log", batch_size=16, simulated={"call_ms": 150}):
            wait_until(lambda: ledger.counts(run.run_id).settled > 0, "the first batch")
            server.stop()
            with valkey(folder, port):
                wait_finished(RedisLedger.connect(settings), run)
                late = open_run(ledger, make_questions(3), name="late")
                send(app, ledger, late)
                wait_finished(ledger, late)
                assert (len(verdicts(ledger, run)), len(verdicts(ledger, late))) == (90, 3)
        ledger.client.close()


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
