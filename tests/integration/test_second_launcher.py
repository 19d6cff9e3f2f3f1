"""Launchers beside each other on one host: no worker is started twice."""

from __future__ import annotations

import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from celery import Celery

from benchmarks.stand import set_words
from contract import RedisLedger, keys
from contract.fleet import LEASE_S, Fleet, WorkerRecord, WorkerState
from tests.integration.launching import attempts, begun, launched, names, workers_command
from tests.integration.runs import sent, wait_finished
from tests.support import (
    SIMULATED_MODEL,
    process,
    wait_until,
)


def test_one_worker_of_the_plan_is_started_alone_beside_those_that_go_on(
    redis_ledger: RedisLedger, tmp_path: Path
) -> None:
    with launched(tmp_path, "cpu_workers=2") as up:
        up.wait_ready(2)
        workers_command("drain", "cpu1")
        missing = workers_command("restart", "cpu1", exit_code=1)
        assert "python -m workers up --only NAME" in missing
        command = ("-m", "workers", "up", "--only", "cpu1", "--logs", str(tmp_path))
        chosen = ("--set", "engine=simulated", "--set", f"model={SIMULATED_MODEL}", "--set", "cpu_workers=2")
        with process(*command, *chosen, log=tmp_path / "second.log"):
            wait_until(lambda: names(redis_ledger) == ["cpu0", "cpu1"], "it to be back")
            assert up.process.poll() is None


def up_again(folder: Path, *settings: str) -> str:
    """A second `workers up` of the simulated engine, which must be refused; what it said."""
    chosen = set_words(["engine=simulated", f"model={SIMULATED_MODEL}", *settings])
    return workers_command("up", *chosen, "--logs", str(folder / "second"), exit_code=1)


def test_workers_that_run_already_are_not_started_a_second_time(redis_ledger: RedisLedger, tmp_path: Path) -> None:
    with launched(tmp_path) as up:
        up.wait_ready(1)
        (running,) = (each.name for each in Fleet(redis_ledger.client).alive())
        said = up_again(tmp_path, "cpu_workers=2")
        assert f"Already running: {running} (ready, {SIMULATED_MODEL}, pid {up.pids()[0]})" in said
        assert f"To restart: python -m workers restart {running}. To stop: python -m workers drain {running}." in said
        assert "add --only cpu1 to this command" in said
        assert not (tmp_path / "second").exists(), "nothing boots"
        assert up.process.poll() is None, "the first one goes on"


def test_a_worker_of_another_machine_that_is_called_the_same_is_told_from_one_that_runs_here(
    redis_ledger: RedisLedger, tmp_path: Path
) -> None:
    there = WorkerRecord(name=f"cpu0@{socket.gethostname()}", model="m", state=WorkerState.READY, place="a cloned host")
    fleet, is_refused = Fleet(redis_ledger.client), threading.Event()

    def beat() -> None:
        while not is_refused.wait(0.2):
            fleet.beat(there)

    fleet.join(there)
    with ThreadPoolExecutor() as pool:
        beating = pool.submit(beat)
        try:
            said = up_again(tmp_path)
        finally:
            is_refused.set()
        beating.result()
    assert "with the same host name. Give each a host name of its own." in said
    assert "drain" not in said, "it is not ours to end"


def test_workers_of_other_names_are_started_beside_those_that_run(redis_ledger: RedisLedger, tmp_path: Path) -> None:
    several = tmp_path / "several.yaml"
    models = "\n".join(f"  - model: {name}\n    engine: simulated" for name in ("one", "two"))
    several.write_text(f"models:\n{models}\n")
    with launched(tmp_path) as up:
        up.wait_ready(1)
        command = ("-m", "workers", "up", "--config", str(several), "--logs", str(tmp_path / "second"))
        with process(*command, log=tmp_path / "second.log"):
            wait_until(lambda: names(redis_ledger) == ["cpu0", "one-cpu0", "two-cpu1"], "all three")
        assert "Redis already lists" not in (tmp_path / "second.log").read_text()


def test_the_lease_of_a_worker_that_was_killed_elsewhere_keeps_its_successor_waiting_and_no_longer(
    redis_ledger: RedisLedger, tmp_path: Path
) -> None:
    killed = WorkerRecord(name=f"cpu0@{socket.gethostname()}", model="m", state=WorkerState.READY, place="a killed pod")
    Fleet(redis_ledger.client).join(killed)
    with launched(tmp_path) as up:

        def waits() -> bool:
            """Until then the lease goes on: how long a launcher takes to look is not the matter."""
            if f"Redis already lists {killed.name}: waiting" in up.said():
                return True
            redis_ledger.client.expire(keys.worker(killed.name), LEASE_S // 2)
            return False

        wait_until(waits, "the launcher to wait")
        up.wait_ready(1)
        assert up.said().count("booting (pid") == 1, "not once before the name was free"


def test_a_worker_that_drains_is_waited_for_and_followed(
    app: Celery, redis_ledger: RedisLedger, tmp_path: Path
) -> None:
    with launched(tmp_path, "simulated.call_ms=4000", "batch_size=8") as first:
        first.wait_ready(1)
        run = sent(app, redis_ledger, 8)
        wait_until(lambda: begun(redis_ledger, run), "the call to begin")
        first.process.kill()  # as by systemd, which starts the next one at once
        (tmp_path / "next").mkdir()
        with launched(tmp_path / "next") as following:
            following.wait_ready(1)
            wait_finished(redis_ledger, run)
            assert "(draining, " in following.said()
            assert following.said().count("booting (pid") == 1, "not once before the name was free"
    assert attempts(redis_ledger, run) == [1] * 8
