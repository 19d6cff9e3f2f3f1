"""A real Celery worker on a real server, with the simulated engine: batching, priorities and events."""

from __future__ import annotations

import os
import re
import signal
import threading
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

from contract import Outcome, RedisLedger, Settings, keys
from contract.connection import connect
from contract.fleet import Fleet
from contract.mode import Mode
from contract.priority import Priority
from contract.queue import held_question_ids
from contract.spec import Sampling
from demo.valkey import free_port
from tests.integration.runs import send, sent, verdicts, wait_acknowledged, wait_finished
from tests.support import (
    PATIENCE_S,
    SIMULATED_MODEL,
    make_questions,
    open_run,
    process,
    wait_until,
    worker,
)
from tests.unit.workers.engines.openai.server import Script, serving


def test_every_question_gets_its_verdict_and_every_message_its_acknowledgement(
    app: Celery, redis_ledger: RedisLedger, tmp_path: Path
) -> None:
    run = sent(app, redis_ledger, 103, batch_size=8)
    with worker(tmp_path / "log", batch_size=16):
        wait_finished(redis_ledger, run)
        wait_acknowledged(redis_ledger)
    assert [verdict.question_id for verdict in verdicts(redis_ledger, run)] == [f"q{n}" for n in range(103)]
    assert {verdict.attempts for verdict in verdicts(redis_ledger, run)} == {1}


def test_the_messages_of_a_batch_are_acknowledged_together(
    app: Celery, redis_ledger: RedisLedger, tmp_path: Path
) -> None:
    run = sent(app, redis_ledger, 64, batch_size=2)
    redis_ledger.client.config_resetstat()
    with worker(tmp_path / "log", batch_size=32, simulated={"call_ms": 100}):
        wait_finished(redis_ledger, run)
        wait_acknowledged(redis_ledger)
    batches = {verdict.batch_id for verdict in verdicts(redis_ledger, run)}
    struck_off = redis_ledger.client.info("commandstats")["cmdstat_zrem"]["calls"]
    assert struck_off <= len(batches) < 32


def test_a_single_question_leaves_by_the_timeout(app: Celery, redis_ledger: RedisLedger, tmp_path: Path) -> None:
    with worker(tmp_path / "log", batch_size=64, batch_timeout=0.2):
        run = sent(app, redis_ledger, 1)
        wait_finished(redis_ledger, run)
    assert re.search(r"batch 1: 1 question in .*flushed by timeout", (tmp_path / "log").read_text())


def test_a_question_of_high_priority_does_not_wait_for_others_while_the_engine_is_idle(
    app: Celery, redis_ledger: RedisLedger, tmp_path: Path
) -> None:
    with worker(tmp_path / "log", batch_size=64, batch_timeout=600):
        run = sent(app, redis_ledger, 1, priority=Priority.HIGH)
        wait_finished(redis_ledger, run)
    assert re.search(r"batch 1: 1 question in .*flushed by idle", (tmp_path / "log").read_text())


def test_batches_are_full_while_the_engine_is_busy_and_two_overlap(
    app: Celery, redis_ledger: RedisLedger, tmp_path: Path
) -> None:
    run = sent(app, redis_ledger, 32, batch_size=4)
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
            wait_acknowledged(redis_ledger)
    attempts = {each.question_id: each.attempts for each in verdicts(redis_ledger, run)}
    assert attempts == {f"q{n}": 1 + (n == 7) for n in range(16)}


def test_no_more_is_taken_than_the_running_batches_and_one_more_can_use(
    app: Celery, redis_ledger: RedisLedger, tmp_path: Path
) -> None:
    run = sent(app, redis_ledger, 400, batch_size=4)
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
        run = sent(app, redis_ledger, 400)
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
            with pytest.raises(urllib.error.HTTPError, match="503") as refused:
                urllib.request.urlopen(f"http://{record.metrics_at}/targets", timeout=PATIENCE_S)
            refused.value.close()
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


@pytest.mark.usefixtures("redis_url")
def test_a_live_worker_tells_which_adapters_runs_may_ask_it_for(redis_ledger: RedisLedger, tmp_path: Path) -> None:
    with worker(tmp_path / "log", adapters={"law": "adapters/law"}):
        (record,) = Fleet(redis_ledger.client).alive()
    assert record.adapters == ["law"]
