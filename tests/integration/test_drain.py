"""Workers that are drained or restarted by name, and what happens to the batches they have begun."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from celery import Celery
from click.testing import CliRunner

from contract import RedisLedger, keys
from contract.fleet import Fleet, Wish, WorkerState
from tests.integration.launching import attempts, begun, launched, names, workers_command
from tests.integration.runs import sent, wait_finished
from tests.support import (
    PATIENCE_S,
    ROOT,
    SIMULATED_MODEL,
    wait_until,
    worker,
)
from workers.cli import main as workers_main


def test_a_worker_drained_by_name_ends_its_batches_and_is_left_ended(
    app: Celery, redis_ledger: RedisLedger, tmp_path: Path
) -> None:
    with launched(tmp_path, "cpu_workers=2", "batch_size=8", "simulated.call_ms=300") as up:
        up.wait_ready(2)
        run = sent(app, redis_ledger, 160)
        wait_until(lambda: redis_ledger.counts(run.run_id).settled > 0, "the first batch")
        said = workers_command("drain", "cpu0")
        assert "cpu0@" in said
        assert "drained" in said
        assert names(redis_ledger) == ["cpu1"]
        wait_until(lambda: f"cpu0@{socket.gethostname()}: stopped as requested" in up.said(), "the launcher to notice")
        wait_finished(redis_ledger, run)
        assert up.said().count("booting (pid") == 2
        assert not redis_ledger.client.keys(keys.wish("*"))
        workers_command("drain", "cpu1")
        assert up.process.wait(timeout=PATIENCE_S) == 0
    assert attempts(redis_ledger, run) == [1] * 160, "batches in flight were ended, not asked again"


def test_a_worker_that_is_drained_while_it_ends_to_restart_stays_down(
    app: Celery, redis_ledger: RedisLedger, tmp_path: Path
) -> None:
    fleet = Fleet(redis_ledger.client)
    own = ("drain_timeout_s=70", "server_startup_timeout=700")
    with launched(tmp_path, "batch_size=8", "simulated.call_ms=5000", *own) as up:
        up.wait_ready(1)
        run = sent(app, redis_ledger, 16)
        wait_until(lambda: begun(redis_ledger, run), "the call to begin")
        (record,) = fleet.alive()
        assert (record.drain_timeout_s, record.startup_timeout_s) == (70, 700), "for whoever waits, with other settings"
        fleet.ask(record.name, Wish.RESTART)
        wait_until(lambda: [each.state for each in fleet.alive()] == [WorkerState.DRAINING], "the restart to begin")
        drained = CliRunner().invoke(workers_main, ["drain", "cpu0"])  # a process of its own might come too late
        assert drained.exit_code == 0, drained.output
        assert up.process.wait(timeout=PATIENCE_S) == 0
    assert f"cpu0@{socket.gethostname()}: stopped as requested" in up.said()
    assert not redis_ledger.client.keys(keys.wish("*"))


def test_a_worker_is_known_to_be_starting_before_it_has_joined(redis_ledger: RedisLedger, tmp_path: Path) -> None:
    fleet, queue = Fleet(redis_ledger.client), keys.score_queue(SIMULATED_MODEL)
    with launched(tmp_path) as up:
        wait_until(lambda: bool(fleet.starting(queue)), "the launcher")
        assert [each.partition("@")[0] for each in fleet.starting(queue)] == ["cpu0"]
        assert fleet.alive() == []
        up.wait_ready(1)
        assert fleet.starting(queue) == []


def test_a_worker_that_dies_before_it_reads_the_wish_to_drain_does_not_stay(
    redis_ledger: RedisLedger, tmp_path: Path
) -> None:
    with launched(tmp_path) as up:
        up.wait_ready(1)
        (pid,) = up.pids()
        os.kill(pid, signal.SIGSTOP)
        with ThreadPoolExecutor(1) as pool:  # a process of its own might come when the stopped one's lease is over
            asking = pool.submit(CliRunner().invoke, workers_main, ["drain", "cpu0"])
            wait_until(lambda: asking.done() or bool(redis_ledger.client.keys(keys.wish("*"))), "the wish")
            os.kill(pid, signal.SIGKILL)
            assert up.process.wait(timeout=PATIENCE_S) == 0
            assert asking.result(timeout=PATIENCE_S).exit_code == 0, asking.result().output
    assert f"cpu0@{socket.gethostname()}: stopped as requested" in up.said()


def test_workers_restart_one_after_the_other_while_the_run_goes_on(
    app: Celery, redis_ledger: RedisLedger, tmp_path: Path
) -> None:
    fleet = Fleet(redis_ledger.client)
    with launched(tmp_path, "cpu_workers=2", "batch_size=8", "simulated.call_ms=200") as up:
        up.wait_ready(2)
        wait_until(lambda: all(each.state is WorkerState.READY for each in fleet.alive()), "their records")
        before = {each.name: each.pid for each in fleet.alive()}
        run = sent(app, redis_ledger, 400)
        fewest = 2
        with subprocess.Popen([sys.executable, "-m", "workers", "restart"], cwd=ROOT, stdout=subprocess.PIPE) as asking:
            while asking.poll() is None:
                fewest = min(fewest, [each.state for each in fleet.alive()].count(WorkerState.READY))
                time.sleep(0.02)  # a boot takes longer, and needs the cores
            said = asking.communicate()[0].decode()
        assert (asking.returncode, said.count("ready again")) == (0, 2)
        assert fewest == 1, "never both at once"
        after = {each.name: each.pid for each in fleet.alive()}
        assert before.keys() == after.keys()
        assert not set(before.values()) & set(after.values())
        wait_finished(redis_ledger, run)
    assert attempts(redis_ledger, run) == [1] * 400


def test_names_that_mean_no_worker_or_one_that_would_not_come_back_are_refused(
    redis_ledger: RedisLedger, tmp_path: Path
) -> None:
    assert "No worker is alive" in workers_command("drain", "gpu0", exit_code=1)
    with worker(tmp_path / "log", name="gpu0"):
        assert "Live workers: gpu0@test" in workers_command("drain", "gpu0@tset", exit_code=1)
        assert "gpu0@test cannot be restarted" in workers_command("restart", exit_code=1)
        assert names(redis_ledger) == ["gpu0"]
        drained = workers_command("drain", "gpu1", exit_code=1)
        assert "Did you mean" not in drained, "its neighbour is another worker, and no correction"


def test_a_drain_does_not_wait_longer_than_it_may_for_a_batch(
    app: Celery, redis_ledger: RedisLedger, tmp_path: Path
) -> None:
    with worker(tmp_path / "log", drain_timeout_s=1, simulated={"hang_text": "plus"}) as slow:
        run = sent(app, redis_ledger, 4)
        wait_until(lambda: begun(redis_ledger, run), "the call to begin")
        fleet = Fleet(redis_ledger.client)
        (name,) = fleet.names()
        fleet.ask(name, Wish.DRAIN)
        assert slow.wait(timeout=PATIENCE_S) == 0
        assert fleet.wish(name) is None, "the next worker of this name stays"
    with worker(tmp_path / "next", name="w1"):
        wait_finished(redis_ledger, run)
    assert "did not end within 1 s" in (tmp_path / "log").read_text()
    assert attempts(redis_ledger, run) == [1] * 4, "what a stop breaks off is no fault of its questions"


def test_a_launcher_that_is_stopped_lets_its_workers_take_back_what_they_break_off(
    app: Celery, redis_ledger: RedisLedger, tmp_path: Path
) -> None:
    with launched(tmp_path, "drain_timeout_s=1", "simulated.hang_text=plus") as up:
        up.wait_ready(1)
        run = sent(app, redis_ledger, 4)
        wait_until(lambda: begun(redis_ledger, run), "the call to begin")
        up.process.terminate()
        assert up.process.wait(timeout=PATIENCE_S) == 0
    left = redis_ledger.client.hvals(keys.RunKeys(run.run_id).attempts)
    assert [each.split()[0] for each in left] == ["0"] * 4
