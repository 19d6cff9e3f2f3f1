"""Connections to Redis break, or Redis starts anew, while a worker runs."""

from __future__ import annotations

import signal
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest
from celery import Celery

from contract import Outcome, RedisLedger, keys, load_settings
from contract.queue import make_celery, publish, queue_length
from tests.integration.holding import book
from tests.integration.launching import begun
from tests.integration.runs import QUEUE, send, sent, verdicts, wait_acknowledged, wait_finished
from tests.support import PATIENCE_S, SIMULATED_MODEL, make_questions, open_run, url_of, valkey, wait_until, worker


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
    run = sent(app, redis_ledger, 8)
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
    run = sent(app, redis_ledger, 12)
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


def refusals(ledger: RedisLedger) -> int:
    """How often Redis has refused a command on a key of the wrong type."""
    return int(ledger.client.info("errorstats").get("errorstat_WRONGTYPE", {}).get("count", 0))


def test_messages_that_went_back_to_the_queue_are_taken_again_by_the_same_worker(
    app: Celery, redis_ledger: RedisLedger, tmp_path: Path
) -> None:
    run = open_run(redis_ledger, make_questions(40))
    attempts = keys.RunKeys(run.run_id).attempts
    redis_ledger.client.set(attempts, "no hash: every beginning fails")
    redis_ledger.client.config_resetstat()
    with worker(tmp_path / "log", batch_size=64):
        send(app, redis_ledger, run)
        wait_until(lambda: refusals(redis_ledger) >= 3, "refusals")
        assert f"run {run.run_id} is put off: Redis at " in (tmp_path / "log").read_text()
        redis_ledger.client.delete(attempts)
        wait_finished(redis_ledger, run)
        wait_acknowledged(redis_ledger)
    assert len(verdicts(redis_ledger, run)) == 40


def test_a_restarted_redis_costs_nothing_and_partial_batches_still_leave(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "valkey"
    with valkey(folder) as server:
        monkeypatch.setenv("MCQUEUE_REDIS_URL", url_of(server))
        settings = load_settings(None, [f"model={SIMULATED_MODEL}"])
        ledger, app, port = RedisLedger.connect(settings), make_celery(settings), server.port
        run = sent(app, ledger, 90)
        with worker(tmp_path / "log", batch_size=16, simulated={"call_ms": 150}):
            wait_until(lambda: ledger.counts(run.run_id).settled > 0, "the first batch")
            server.stop()
            with valkey(folder, port):
                afterwards = RedisLedger.connect(settings)
                wait_finished(afterwards, run)
                afterwards.client.close()
                late = sent(app, ledger, 3, "late")
                wait_finished(ledger, late)
                assert (len(verdicts(ledger, run)), len(verdicts(ledger, late))) == (90, 3)
        ledger.client.close()


def test_an_engine_that_has_booted_while_redis_was_away_waits_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker ended, and its engine, which may have taken minutes, was booted again, and after five times not."""
    folder, log = tmp_path / "valkey", tmp_path / "log"
    with valkey(folder) as server:
        monkeypatch.setenv("MCQUEUE_REDIS_URL", url_of(server))
        settings = load_settings(None, [f"model={SIMULATED_MODEL}"])
        ledger, app, port = RedisLedger.connect(settings), make_celery(settings), server.port
        run = sent(app, ledger, 3)
        monkeypatch.setenv("MCQUEUE_READY_FD", "2")  # into its log, instead of to a launcher

        def away_until_it_has_booted() -> None:
            # Its name is taken before that, and what it asks Redis then, a worker without an engine does not wait for.
            wait_until(lambda: log.exists() and "booting simulated" in log.read_text(), "the engine to boot")
            server.stop()
            wait_until(lambda: "a booted worker waiting for the ledger" in log.read_text(), "the worker to have booted")
            back.enter_context(valkey(folder, port))

        with ExitStack() as back, ThreadPoolExecutor() as beside:
            outage = beside.submit(away_until_it_has_booted)
            with worker(log, simulated={"boot_s": 3}):
                outage.result()
                wait_finished(ledger, run)
        ledger.client.close()
    assert log.read_text().count("booting simulated") == 1
    until_redis_was_back, _ = log.read_text().split("ready: takes question batches")
    assert "booted" in until_redis_was_back.splitlines(), "so no launcher kills it for the time that its boot takes"
