"""A real Celery worker on a real server, with the simulated engine: batching, events, priorities, and faults."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from celery import Celery

from contract import Outcome, RedisLedger, Settings, Verdict, keys, load_settings
from contract.audit import missing
from contract.connection import connect
from contract.errors import EXIT_RETRY, RedisUnreachable
from contract.fleet import LEASE_S, Fleet
from contract.priority import Priority
from contract.queue import held_question_ids, make_celery, publish, queue_length
from contract.spec import Mode, Sampling
from demo.valkey import free_port
from tests.integration.runs import send, verdicts, wait_acknowledged, wait_finished
from tests.support import (
    NOT_BY_ITSELF,
    PATIENCE_S,
    ROOT,
    SIMULATED_MODEL,
    booted_pids,
    end,
    make_question,
    make_questions,
    open_run,
    process,
    processes_of_session,
    url_of,
    valkey,
    wait_until,
    worker,
)
from tests.unit.workers.openai_server import Script, serving
from workers.host.launcher import worker_command
from workers.janitor import Janitor

QUEUE = keys.score_queue(SIMULATED_MODEL)


def wait_nothing_left(ledger: RedisLedger, name: str = "w0@test") -> None:
    wait_acknowledged(ledger, QUEUE, name)


def test_every_question_gets_its_verdict_and_every_message_its_acknowledgement(
    app: Celery, redis_ledger: RedisLedger, tmp_path: Path
) -> None:
    run = open_run(redis_ledger, make_questions(103))
    send(app, redis_ledger, run, batch_size=8)
    with worker(tmp_path / "log", batch_size=16):
        wait_finished(redis_ledger, run)
        wait_nothing_left(redis_ledger)
    assert [verdict.question_id for verdict in verdicts(redis_ledger, run)] == [f"q{n}" for n in range(103)]
    assert {verdict.attempts for verdict in verdicts(redis_ledger, run)} == {1}


def test_the_messages_of_a_batch_are_acknowledged_together(
    app: Celery, redis_ledger: RedisLedger, tmp_path: Path
) -> None:
    run = open_run(redis_ledger, make_questions(64))
    send(app, redis_ledger, run, batch_size=2)
    redis_ledger.client.config_resetstat()
    with worker(tmp_path / "log", batch_size=32, simulated={"call_ms": 100}):
        wait_finished(redis_ledger, run)
        wait_nothing_left(redis_ledger)
    batches = {verdict.batch_id for verdict in verdicts(redis_ledger, run)}
    struck_off = redis_ledger.client.info("commandstats")["cmdstat_zrem"]["calls"]
    assert struck_off <= len(batches) < 32


def test_a_single_question_leaves_by_the_timeout(app: Celery, redis_ledger: RedisLedger, tmp_path: Path) -> None:
    with worker(tmp_path / "log", batch_size=64, batch_timeout=0.2):
        run = open_run(redis_ledger, make_questions(1))
        send(app, redis_ledger, run)
        wait_finished(redis_ledger, run)
    assert re.search(r"batch 1: 1 question in .*flushed by timeout", (tmp_path / "log").read_text())


def test_batches_are_full_while_the_engine_is_busy_and_two_overlap(
    app: Celery, redis_ledger: RedisLedger, tmp_path: Path
) -> None:
    run = open_run(redis_ledger, make_questions(32))
    send(app, redis_ledger, run, batch_size=4)
    with worker(tmp_path / "log", batch_size=8, batches_in_flight=2, simulated={"call_ms": 2000}):
        wait_finished(redis_ledger, run)
    settled = verdicts(redis_ledger, run)
    assert {verdict.batch_size for verdict in settled} == {8}
    spans = {each.batch_id: (each.settled_at - each.latency_ms / 1000, each.settled_at) for each in settled}
    assert len(spans) == 4
    assert any(
        start <= other_start < stop
        for one, (start, stop) in spans.items()
        for two, (other_start, _) in spans.items()
        if one != two
    )


def test_a_question_that_takes_long_keeps_nothing_waiting_in_its_batch_or_behind_it(
    app: Celery, redis_ledger: RedisLedger, tmp_path: Path
) -> None:
    questions = make_questions(40)
    run = open_run(redis_ledger, questions, mode=Mode.GENERATE, sampling=Sampling(max_tokens=9))
    send(app, redis_ledger, run, batch_size=4)
    script = Script(slow_text=questions[0].question)
    with serving(script) as url:
        openai = {"url": url, "model": "grader", "concurrency": 8}
        with worker(
            tmp_path / "log", engine="openai", openai=openai, batch_size=4, batches_in_flight=1, settle_every_s=0.5
        ):
            wait_until(lambda: redis_ledger.counts(run.run_id).settled == 39, "all questions but the slow one")
            script.released.set()
            wait_finished(redis_ledger, run)
    assert {each.outcome for each in verdicts(redis_ledger, run)} <= {Outcome.CORRECT, Outcome.WRONG}


def test_a_worker_killed_while_one_text_is_awaited_leaves_that_one_alone_to_ask_again(
    app: Celery, redis_ledger: RedisLedger, tmp_path: Path
) -> None:
    questions = make_questions(16)
    run = open_run(redis_ledger, questions, mode=Mode.GENERATE, sampling=Sampling(max_tokens=9))
    send(app, redis_ledger, run, batch_size=16)
    script = Script(slow_text=questions[7].question)
    with serving(script) as url:
        openai = {"url": url, "model": "grader", "concurrency": 16}
        with worker(tmp_path / "first", engine="openai", openai=openai, batch_size=16, settle_every_s=0.5) as first:
            wait_until(lambda: redis_ledger.counts(run.run_id).settled == 15, "all texts but the slow one")
            first.kill()
            first.wait()
        script.released.set()
        with worker(tmp_path / "second", engine="openai", openai=openai, batch_size=16):
            wait_finished(redis_ledger, run)
            wait_nothing_left(redis_ledger)
    attempts = {each.question_id: each.attempts for each in verdicts(redis_ledger, run)}
    assert attempts == {f"q{n}": 1 + (n == 7) for n in range(16)}


def test_no_more_is_taken_than_the_running_batches_and_one_more_can_use(
    app: Celery, redis_ledger: RedisLedger, tmp_path: Path
) -> None:
    run = open_run(redis_ledger, make_questions(400))
    send(app, redis_ledger, run, batch_size=4)
    held: list[int] = []

    def finished_while_watched() -> bool:
        held.append(len(held_question_ids(redis_ledger.client, ["w0@test"], run.run_id)))
        return redis_ledger.counts(run.run_id).finished

    with worker(tmp_path / "log", batch_size=16, batches_in_flight=2, simulated={"call_ms": 300}):
        wait_until(finished_while_watched, "all verdicts")
    assert 16 < max(held) <= (2 + 1) * 16 + 4


def test_a_slow_worker_holds_no_more_than_a_fast_one_which_does_the_more(
    app: Celery, redis_ledger: RedisLedger, tmp_path: Path
) -> None:
    names = ("slow", "fast")
    most = dict.fromkeys(names, 0)

    def finished_while_watched() -> bool:
        for name in names:
            held = held_question_ids(redis_ledger.client, [f"{name}@test"], run.run_id)
            # A settled one may be on the books still, for the moment until its acknowledgement is written.
            most[name] = max(most[name], len(held.intersection(redis_ledger.unsettled(run.run_id))))
        return redis_ledger.counts(run.run_id).finished

    with (
        worker(tmp_path / "slow", name="slow", batch_size=8, simulated={"call_ms": 1000}),
        worker(tmp_path / "fast", name="fast", batch_size=8, simulated={"call_ms": 100}),
    ):
        run = open_run(redis_ledger, make_questions(400))
        send(app, redis_ledger, run)
        wait_until(finished_while_watched, "all verdicts")
    done = Counter(verdict.worker.partition("@")[0] for verdict in verdicts(redis_ledger, run))
    assert max(most.values()) <= (2 + 1) * 8 + 4
    assert done["fast"] > done["slow"] > 0


@pytest.mark.parametrize(
    ("waiting", "urgent"),
    [(Priority.LOW, Priority.NORMAL), (Priority.NORMAL, Priority.HIGH)],
    ids=str,
)
def test_more_urgent_questions_are_in_the_next_batch_also_before_those_that_the_worker_holds_already(
    app: Celery, redis_ledger: RedisLedger, tmp_path: Path, waiting: Priority, urgent: Priority
) -> None:
    bulk = open_run(redis_ledger, make_questions(300), name="bulk")
    few = open_run(redis_ledger, make_questions(4), name="few")
    send(app, redis_ledger, bulk, priority=waiting)
    with worker(tmp_path / "log", batch_size=8, batches_in_flight=1, simulated={"call_ms": 2000}):
        begun = keys.RunKeys(bulk.run_id).attempts

        def second_runs_and_more_is_held() -> bool:
            if redis_ledger.counts(bulk.run_id).settled != 8 or redis_ledger.client.hlen(begun) != 8:
                return False
            return len(held_question_ids(redis_ledger.client, ["w0@test"], bulk.run_id)) > 8

        wait_until(second_runs_and_more_is_held, "a batch to end, the next to begin, and more to be taken")
        send(app, redis_ledger, few, priority=urgent)
        wait_finished(redis_ledger, few)
    numbers = {int(verdict.batch_id.rpartition("/")[2]) for verdict in verdicts(redis_ledger, few)}
    assert numbers == {3}  # the second was running
    assert {verdict.batch_size for verdict in verdicts(redis_ledger, few)} == {8}  # filled up with what was held


def test_flower_sees_every_message_received_started_and_succeeded_once(
    app: Celery, redis_ledger: RedisLedger, tmp_path: Path
) -> None:
    seen: Counter[str] = Counter()
    results: list[str] = []

    def on_event(event: dict[str, Any]) -> None:
        seen[event["type"]] += 1
        if event["type"] == "task-succeeded":
            results.append(event["result"])
            assert event["runtime"] >= 0

    with captured_events(app, on_event), worker(tmp_path / "log", batch_size=16):
        wait_until(lambda: seen["worker-heartbeat"] > 0, "events to arrive")
        run = open_run(redis_ledger, make_questions(120))
        messages = send(app, redis_ledger, run, batch_size=4)
        wait_until(lambda: seen["task-succeeded"] >= messages, "every message to succeed")
        beats = seen["worker-heartbeat"]
        wait_until(lambda: seen["worker-heartbeat"] >= beats + 2, "events that come twice, if any do")
    assert messages == 30
    assert [seen[f"task-{what}"] for what in ("received", "started", "succeeded", "failed")] == [30, 30, 30, 0]
    assert all("correct" in result or "wrong" in result for result in results)


@pytest.mark.usefixtures("redis_url")
def test_prometheus_is_told_that_a_silent_redis_names_no_targets_while_others_still_wait_for_it(
    redis_ledger: RedisLedger, settings: Settings, tmp_path: Path
) -> None:
    other = Fleet(connect(settings, retries=1))
    with worker(tmp_path / "log", metrics_port=free_port()) as child, ThreadPoolExecutor(1) as pool:
        (record,) = Fleet(redis_ledger.client).alive()
        server = int(redis_ledger.client.info()["process_id"])
        os.kill(server, signal.SIGSTOP)  # the kernel goes on to accept connections
        try:
            waiting = pool.submit(other.alive)
            with pytest.raises(urllib.error.HTTPError, match="503"):
                urllib.request.urlopen(f"http://{record.metrics_at}/targets", timeout=PATIENCE_S)
            assert not waiting.done()
            with urllib.request.urlopen(f"http://{record.metrics_at}/health", timeout=PATIENCE_S) as health:
                assert health.status == 200, "a probe would restart the worker, which only has to wait"
        finally:
            os.kill(server, signal.SIGCONT)
        child.kill()


def test_the_banner_of_a_worker_started_by_hand_says_that_it_sends_task_events(redis_url: str, tmp_path: Path) -> None:
    command = ("-m", "celery", "-A", "workers.app", "worker", "--pool", "threads", "-n", "w0@test")
    environment = {"MCQUEUE_ENGINE": "simulated", "MCQUEUE_MODEL": SIMULATED_MODEL}
    log = tmp_path / "log"
    with process(*command, environment=environment, log=log):
        wait_until(lambda: "ready: takes question batches" in log.read_text(), "the worker to be ready")
    assert "task events: ON" in log.read_text()


@contextmanager
def captured_events(app: Celery, on_event: Callable[[dict[str, Any]], None]) -> Iterator[None]:
    """Celery's own event receiver, the one that Flower uses, in a thread."""
    with app.connection_for_read() as connection:
        receiver = app.events.Receiver(connection, handlers={"*": on_event})
        thread = threading.Thread(target=receiver.capture, kwargs={"limit": None, "timeout": None, "wakeup": False})
        thread.start()
        try:
            yield
        finally:
            receiver.should_stop = True
            thread.join(timeout=PATIENCE_S)


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
        wait_nothing_left(redis_ledger)
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


def test_a_lost_message_is_found_although_messages_of_other_runs_still_wait(
    settings: Settings, app: Celery, redis_ledger: RedisLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, waiting = (open_run(redis_ledger, make_questions(8), name=name) for name in ("begun", "waiting"))
    redis_ledger.commit(begun.run_id, [Verdict(question_id="q0", outcome=Outcome.CORRECT)])
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


def test_a_reconnect_while_the_last_ones_messages_are_put_back_is_not_forgotten(
    settings: Settings, app: Celery, monkeypatch: pytest.MonkeyPatch
) -> None:
    janitor = Janitor(settings, app, "w0@test", QUEUE)
    restored: list[str] = []

    def restore(_: Settings, name: str) -> int:
        restored.append(name)
        if len(restored) == 1:
            janitor.restore_own_soon()
        if len(restored) == 2:
            raise RedisUnreachable("away again")
        return 0

    monkeypatch.setattr("workers.janitor.restore_held", restore)
    janitor.restore_own_soon()
    janitor.round()
    with pytest.raises(RedisUnreachable):
        janitor.round()
    janitor.round()
    janitor.round()
    assert restored == ["w0@test"] * 3


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
        wait_nothing_left(redis_ledger)
    assert len(verdicts(redis_ledger, run)) == 40


def test_a_run_that_this_version_cannot_read_is_not_the_others_trouble(
    app: Celery, redis_ledger: RedisLedger, tmp_path: Path
) -> None:
    redis_ledger.client.set(keys.RunKeys("from-the-future").meta, '{"spec": {"mode": "telepathy"}}')
    redis_ledger.client.sadd(keys.open_runs(), "from-the-future")
    run = open_run(redis_ledger, make_questions(20))
    send(app, redis_ledger, run)
    assert redis_ledger.client.lpop(keys.broker_lists(keys.score_queue(SIMULATED_MODEL))[2]) is not None
    with worker(tmp_path / "log"):
        wait_finished(redis_ledger, run)
        assert [each.name for each in Fleet(redis_ledger.client).alive()] == ["w0@test"]
    assert "run from-the-future: audit skipped" in (tmp_path / "log").read_text()


def test_sigterm_while_the_engine_boots_ends_the_worker_and_frees_its_name(redis_url: str, tmp_path: Path) -> None:
    given = {"MCQUEUE_ENGINE": "simulated", "MCQUEUE_REDIS_URL": redis_url, "MCQUEUE_SIMULATED__BOOT_S": "600"}
    log = tmp_path / "log"
    with process(*worker_command("w0@test", 2)[1:], environment=given, log=log) as child:
        wait_until(lambda: "booting simulated" in log.read_text(), "the boot to begin")
        child.send_signal(signal.SIGTERM)
        assert child.wait(timeout=PATIENCE_S) == 0
    client = RedisLedger.connect(load_settings()).client
    assert client.get(keys.worker("w0@test")) is None
    client.close()


def test_sigterm_ends_running_batches_and_gives_the_rest_back(
    app: Celery, redis_ledger: RedisLedger, tmp_path: Path
) -> None:
    run = open_run(redis_ledger, make_questions(100))
    send(app, redis_ledger, run)
    with worker(tmp_path / "log", batch_size=8, simulated={"call_ms": 600}) as leaving:
        wait_until(lambda: redis_ledger.counts(run.run_id).settled > 0, "the first batch")
        leaving.send_signal(signal.SIGTERM)
        assert leaving.wait(timeout=PATIENCE_S) == 0
    assert "Traceback" not in (tmp_path / "log").read_text()
    settled = redis_ledger.counts(run.run_id).settled
    assert 0 < settled < 100
    assert redis_ledger.client.hlen(keys.unacked("w0@test")) == 0
    with worker(tmp_path / "next", name="w1"):
        wait_finished(redis_ledger, run)
    assert len(verdicts(redis_ledger, run)) == 100


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
        wait_nothing_left(redis_ledger)
    outcomes = {verdict.question_id: verdict for verdict in verdicts(redis_ledger, run)}
    assert [each.question_id for each in outcomes.values() if each.outcome is Outcome.FAILED] == ["q5"]
    error = outcomes["q5"].error
    assert error is not None
    told = "; ".join(["w0@test: ZeroDivisionError: simulated bug"] * 3)
    assert (error.type, error.message) == ("TooManyAttempts", f"attempted 3 times: {told}")
    assert outcomes["q5"].attempts == 3
    assert {each.attempts for name, each in outcomes.items() if name != "q5"} == {1}


def test_a_question_that_no_worker_can_read_ends_as_failed_and_its_company_is_scored(
    app: Celery, redis_ledger: RedisLedger, tmp_path: Path
) -> None:
    run = open_run(redis_ledger, make_questions(8))
    redis_ledger.client.hset(keys.RunKeys(run.run_id).questions, "q3", '{"id": "q3", "question": ["no text"]}')
    send(app, redis_ledger, run, batch_size=8)
    with worker(tmp_path / "log", batch_size=8, max_attempts=2):
        wait_until(lambda: redis_ledger.counts(run.run_id).finished, "every question to end")
        wait_nothing_left(redis_ledger)
    assert redis_ledger.counts(run.run_id).of(Outcome.FAILED) == 1
    stored = Verdict.model_validate_json(str(redis_ledger.client.hget(keys.RunKeys(run.run_id).verdicts, "q3")))
    assert stored.error is not None
    assert stored.error.message.count("ValidationError") == 2


def test_the_launcher_restarts_what_dies_and_leaves_nothing_behind_when_it_ends(
    app: Celery, redis_ledger: RedisLedger, tmp_path: Path
) -> None:
    run = open_run(redis_ledger, make_questions(120))
    send(app, redis_ledger, run)
    with launched(tmp_path, "cpu_workers=2", "simulated.call_ms=200", "batch_size=8") as launcher:
        wait_until(lambda: (tmp_path / "up.log").read_text().count("ready after") == 2, "both workers")
        os.kill(worker_pids(tmp_path)[0], signal.SIGKILL)
        wait_until(lambda: (tmp_path / "up.log").read_text().count("ready after") == 3, "the restart")
        wait_finished(redis_ledger, run)
        launcher.send_signal(signal.SIGTERM)
        assert launcher.wait(timeout=PATIENCE_S) == 0
        booted = worker_pids(tmp_path)
        assert len(booted) == 3
        assert [each for pid in booted for each in processes_of_session(pid)] == []
    assert "ended with signal SIGKILL" in (tmp_path / "up.log").read_text()


#: Handing a batch to the pool, which the main thread does under a lock, takes a second.
SLOW_POOL = """
import sys, time
from concurrent.futures.thread import ThreadPoolExecutor
adjust = ThreadPoolExecutor._adjust_thread_count
def slowly(self):
    print("handing over to a pool of", self._max_workers, file=sys.stderr, flush=True)
    time.sleep(1)
    adjust(self)
ThreadPoolExecutor._adjust_thread_count = slowly
"""


@pytest.mark.parametrize("number", [signal.SIGQUIT, signal.SIGINT])
def test_a_signal_while_a_batch_is_handed_to_the_pool_ends_the_worker(
    app: Celery, redis_ledger: RedisLedger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    (tmp_path / "sitecustomize.py").write_text(SLOW_POOL)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), str(ROOT)]))
    run = open_run(redis_ledger, make_questions(40))
    with worker(tmp_path / "log", batch_size=4) as leaving:
        send(app, redis_ledger, run)
        wait_until(lambda: "handing over to a pool of 64" in (tmp_path / "log").read_text(), "the first batch")
        for _ in range(2):
            leaving.send_signal(number)
            time.sleep(0.1)
        assert leaving.wait(timeout=PATIENCE_S) == 1
    assert redis_ledger.client.hlen(keys.unacked("w0@test")) == 0
    assert "Traceback" not in (tmp_path / "log").read_text()


def test_an_engines_process_dies_with_its_worker_where_nobody_is_left_to_end_it(redis_url: str, tmp_path: Path) -> None:
    with worker(tmp_path / "log", simulated={"core": True}) as alone:
        assert len(processes_of_session(alone.pid)) == 2
        alone.kill()
        wait_until(lambda: not processes_of_session(alone.pid), "the engine's process to end")


@contextmanager
def launched(folder: Path, *settings: str) -> Iterator[subprocess.Popen[bytes]]:
    """`python -m workers up` with the simulated engine; what it says goes to up.log in `folder`."""
    given = ("engine=simulated", f"model={SIMULATED_MODEL}", NOT_BY_ITSELF, *settings)
    chosen = [word for each in given for word in ("--set", each)]
    with process("-m", "workers", "up", *chosen, "--logs", str(folder), log=folder / "up.log") as launcher:
        yield launcher


def worker_pids(folder: Path) -> list[int]:
    """Process ids of all workers that the launcher booted, in order; each leads a session of its own."""
    return booted_pids((folder / "up.log").read_text())


def run_to_its_end(*command: str, environment: dict[str, str], log: Path) -> tuple[int, str]:
    with process(*command, environment=environment, log=log) as child:
        try:
            exit_code = child.wait(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            end(child)
            raise
    return exit_code, log.read_text()


@pytest.mark.parametrize(
    ("environment", "pool", "exit_code", "says"),
    [
        (
            {"MCQUEUE_REDIS_URL": "redis://127.0.0.1:1/0"},
            "threads",
            EXIT_RETRY,
            "No Redis answers at redis://127.0.0.1:1",
        ),
        ({}, "solo", 1, "Start the worker with --pool threads"),
        ({"MCQUEUE_LOG_LEVEL": "verbose"}, "threads", 1, "expected one of"),
        ({"MCQUEUE_BATCHSIZE": "8"}, "threads", 1, "Did you mean 'MCQUEUE_BATCH_SIZE'"),
        ({"MCQUEUE_ENGINE": "vllm", "MCQUEUE_HF_MODEL_ID": "/no/such"}, "threads", 1, "no folder /no/such"),
    ],
)
def test_a_worker_that_cannot_work_says_why_in_one_line(
    redis_url: str, tmp_path: Path, environment: dict[str, str], pool: str, exit_code: int, says: str
) -> None:
    command = [pool if word == "threads" else word for word in worker_command("w0@test", 2)[1:]]
    given = {"MCQUEUE_ENGINE": "simulated", "MCQUEUE_REDIS_URL": redis_url, **environment}
    code, output = run_to_its_end(*command, environment=given, log=tmp_path / "log")
    assert code == exit_code, output
    assert says in output
    assert "Traceback" not in output


def test_two_living_workers_never_share_a_name(redis_url: str, tmp_path: Path) -> None:
    given = {"MCQUEUE_ENGINE": "simulated", "MCQUEUE_MODEL": SIMULATED_MODEL, "MCQUEUE_REDIS_URL": redis_url}
    with worker(tmp_path / "first"):
        code, output = run_to_its_end(*worker_command("w0@test", 2)[1:], environment=given, log=tmp_path / "second")
    assert code == EXIT_RETRY  # it may just have died: a launcher tries again
    assert "A worker named 'w0@test' is alive" in output
