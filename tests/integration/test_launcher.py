"""`python -m workers up`: what it refuses, restarts and tells, and what must not stay behind."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
import redis
from celery import Celery

from contract import RedisLedger, keys
from contract.connection import connect
from contract.errors import RedisUnreachable
from contract.fleet import Fleet
from contract.metrics import RedisMetrics
from contract.settings import load_settings
from tests.integration.launching import Launched, launched, names, workers_command
from tests.integration.runs import send, sent, verdicts, wait_finished
from tests.support import (
    PATIENCE_S,
    ROOT,
    SIMULATED_MODEL,
    make_questions,
    open_run,
    process,
    processes_of_session,
    url_of,
    valkey,
    wait_until,
)
from workers.host import redis_watch
from workers.host.redis_watch import RedisWatch


def test_the_launcher_restarts_what_dies_and_leaves_nothing_behind_when_it_ends(
    app: Celery, redis_ledger: RedisLedger, tmp_path: Path
) -> None:
    run = sent(app, redis_ledger, 120)
    with launched(tmp_path, "cpu_workers=2", "simulated.call_ms=200", "batch_size=8") as up:
        up.wait_ready(2)
        os.kill(up.pids()[0], signal.SIGKILL)
        up.wait_ready(3)
        wait_finished(redis_ledger, run)
        up.process.send_signal(signal.SIGTERM)
        assert up.process.wait(timeout=PATIENCE_S) == 0
        booted = up.pids()
        assert len(booted) == 3
        assert [each for pid in booted for each in processes_of_session(pid)] == []
    assert "ended with signal SIGKILL" in up.said()


def test_in_a_container_the_workers_lines_are_among_the_launchers_and_each_has_its_date_and_its_worker(
    app: Celery, redis_ledger: RedisLedger, tmp_path: Path
) -> None:
    """They were in files inside of it, where nobody looked for them."""
    with launched(tmp_path, logs="-") as up:
        up.wait_ready(1)
        os.kill(up.pids()[0], signal.SIGKILL)
        up.wait_ready(2)
        run = sent(app, redis_ledger, 16)
        wait_finished(redis_ledger, run)
        up.process.send_signal(signal.SIGTERM)
        assert up.process.wait(timeout=PATIENCE_S) == 0
    lines = up.said().splitlines()
    assert re.search(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d cpu0 batch 1: 16 questions", up.said())
    assert re.search(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d up cpu0@\S+: ended with signal SIGKILL; its last", up.said())
    assert [each for each in lines if "up cpu0" in each and ".log" in each] == []
    assert not (tmp_path / "cpu0.log").exists()
    assert not Path("-").exists()


#: Two models of one host; one of them has no engine.
ONE_CANNOT = f"""
engine: simulated
models:
  - {{model: {SIMULATED_MODEL}, simulated: {{call_ms: 1}}}}
  - {{model: broken, simulated: {{unbootable: There is no such attention.}}}}
"""


def test_a_model_named_as_on_the_hub_has_a_worker_that_boots_answers_and_can_be_named(
    app: Celery, redis_ledger: RedisLedger, tmp_path: Path
) -> None:
    file = tmp_path / "two.yaml"
    file.write_text("engine: simulated\nbatch_timeout: 0.1\nmodels: [{model: Org/Big}, {model: small}]\n")
    only = ("--config", str(file), "--logs", str(tmp_path), "--only", "org-big-cpu0")
    with process("-m", "workers", "up", *only, log=tmp_path / "up.log") as child:
        up = Launched(child, tmp_path)
        up.wait_ready(1)
        assert (tmp_path / "org-big-cpu0.log").is_file()
        run = open_run(redis_ledger, make_questions(20), model="Org/Big")
        send(app, redis_ledger, run)
        wait_finished(redis_ledger, run)
        assert {each.worker.partition("@")[0] for each in verdicts(redis_ledger, run)} == {"org-big-cpu0"}
        workers_command("restart", "org-big-cpu0")
        workers_command("drain", "org-big-cpu0")
        assert child.wait(timeout=PATIENCE_S) == 0
    told = (tmp_path / "up.log").read_text()
    assert f"org-big-cpu0@{socket.gethostname()}: stopped as requested, to be started again" in told
    assert "its last lines" not in told, "nothing went wrong"
    assert names(redis_ledger) == []


def test_a_worker_that_cannot_boot_is_given_up_at_once_and_who_waits_for_it_is_told_why(
    redis_ledger: RedisLedger, tmp_path: Path
) -> None:
    deploy, log = tmp_path / "fleet.yaml", tmp_path / "up.log"
    deploy.write_text(ONE_CANNOT)
    up = ("-m", "workers", "up", "--config", str(deploy), "--logs", str(tmp_path))
    with process(*up, log=log) as launcher:
        wait_until(lambda: "given up" in log.read_text() and "ready after" in log.read_text(), f"both; see {log}")
        broken = f"broken-cpu1@{socket.gethostname()}"
        assert f"{broken}: ended with exit code 78; There is no such attention." in log.read_text()
        assert log.read_text().count("booting (pid") == 2, "each once"
        (failure,) = Fleet(redis_ledger.client).boot_failures()
        assert (failure.worker, failure.queue, failure.reason) == (
            broken,
            keys.score_queue("broken"),
            "There is no such attention.",
        )
        assert f"{broken} could not boot: There is no such attention." in workers_command("check")
        (told,) = [
            each
            for each in RedisMetrics(redis_ledger, redis_ledger.client).collect()
            if each.name == "mcqueue_worker_unbooted"
        ]
        assert [each.labels["worker"] for each in told.samples] == [broken]
        assert names(redis_ledger) == [f"{SIMULATED_MODEL}-cpu0"], "the other one goes on"
        launcher.send_signal(signal.SIGTERM)
        assert launcher.wait(timeout=PATIENCE_S) == 1
    assert log.read_text().rstrip().endswith(f"{broken}: was given up; There is no such attention.")
    mended = ("-m", "workers", "up", "--config", str(deploy), "--logs", str(tmp_path), "--only", "broken-cpu1")
    deploy.write_text(ONE_CANNOT.replace("unbootable: There is no such attention.", "call_ms: 1"))
    with process(*mended, log=tmp_path / "mended.log"):
        wait_until(lambda: names(redis_ledger) == ["broken-cpu1"], "it")
        wait_until(lambda: not Fleet(redis_ledger.client).boot_failures(), "the end of that")
        assert "could not boot" not in workers_command("check")


def test_a_worker_that_was_given_up_is_started_again_by_its_launcher_when_somebody_asks_for_it(
    redis_ledger: RedisLedger, tmp_path: Path
) -> None:
    """Only a second launcher in another terminal could, or the end of all the others."""
    deploy, log = tmp_path / "fleet.yaml", tmp_path / "up.log"
    deploy.write_text(ONE_CANNOT)
    broken = f"broken-cpu1@{socket.gethostname()}"
    with process("-m", "workers", "up", "--config", str(deploy), "--logs", str(tmp_path), log=log) as launcher:
        wait_until(lambda: "given up" in log.read_text() and "ready after" in log.read_text(), f"both; see {log}")
        again = f"python -m workers restart --config {deploy} {broken}"
        assert f"given up; fix the error, then: {again}" in log.read_text()
        said = workers_command("restart", "broken-cpu1", exit_code=1)
        assert f"error: {broken} could not boot again: There is no such attention." in said
        deploy.write_text(ONE_CANNOT.replace("unbootable: There is no such attention.", "call_ms: 1"))
        assert f"{broken}: booted" in workers_command("restart", broken)
        assert len(names(redis_ledger)) == 2
        assert log.read_text().count(f"{broken}: starting again as requested") == 2
        launcher.send_signal(signal.SIGTERM)
        assert launcher.wait(timeout=PATIENCE_S) == 0


def test_a_killed_launcher_leaves_no_process_behind(redis_ledger: RedisLedger, tmp_path: Path) -> None:
    with launched(tmp_path, "cpu_workers=2", "simulated.core=true") as up:
        up.wait_ready(2)
        pids = up.pids()
        up.process.kill()
        up.process.wait()
        wait_until(lambda: not any(processes_of_session(pid) for pid in pids), "the workers to end")
    assert names(redis_ledger) == []


#: A launcher that can be killed before its child asks the kernel to die with it.
KILLED_IN_BETWEEN = """
import os, signal, subprocess, time
from workers.parent import follower

signal.signal(signal.SIGTERM, lambda *_: None)  # as a launcher does; its child has this until it becomes the worker
us = os.getpid()
follow = follower()

def between_fork_and_exec():
    print(os.getpid(), flush=True)
    while os.getppid() == us:
        time.sleep(0.01)
    print("alone", flush=True)
    follow()
    print("went on", flush=True)

subprocess.Popen(["sleep", "600"], preexec_fn=between_fork_and_exec)
"""


def test_a_child_whose_launcher_died_before_it_could_follow_never_becomes_a_worker() -> None:
    command = [sys.executable, "-c", KILLED_IN_BETWEEN]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as launcher:
        assert launcher.stdout is not None
        child = psutil.Process(int(launcher.stdout.readline()))
        launcher.kill()
        launcher.wait()
        try:
            child.wait(timeout=PATIENCE_S)
        except psutil.TimeoutExpired:
            child.kill()
            pytest.fail("it went on without its launcher")
        assert launcher.stdout.read() == b"alone\n"


def test_a_redis_that_goes_away_is_told_once_and_once_that_it_is_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with valkey(tmp_path / "data") as server:
        monkeypatch.setenv("MCQUEUE_REDIS_URL", url_of(server))
        with launched(tmp_path) as up:
            up.wait_ready(1)
            server.stop()
            wait_until(lambda: "No Redis answers at" in up.said(), "that it is away")
            assert "Workers wait until it responds." in up.said()
            server.start()
            wait_until(lambda: "Redis is back after" in up.said(), "that it is back")
            up.process.terminate()
            assert up.process.wait(timeout=PATIENCE_S) == 0
    assert (up.said().count("No Redis answers"), up.said().count("is back")) == (1, 1)


def test_a_redis_that_refuses_writes_is_told_like_one_that_is_away(tmp_path: Path) -> None:
    told: list[str] = []
    with (
        valkey(tmp_path) as server,
        redis.Redis.from_url(url_of(server)) as client,
        RedisWatch(load_settings(None, [f"redis_url={url_of(server)}"]), told.append),
    ):
        client.config_set("maxmemory", 1)
        wait_until(lambda: len(told) == 1, "that it is full")
        client.config_set("maxmemory", 0)
        wait_until(lambda: len(told) == 2, "that it is not")
    assert told[0].endswith("it is at its memory limit (OOM). Workers wait until it responds.")
    assert told[1].startswith("Redis is back after")


def test_an_outage_of_redis_begins_with_the_question_that_it_does_not_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []

    def late(*_: Any, **__: Any) -> redis.Redis:
        monkeypatch.setattr(redis_watch, "connect", connect)
        time.sleep(1.6)
        raise RedisUnreachable("No Redis answers (timeout).")

    monkeypatch.setattr(redis_watch, "connect", late)
    monkeypatch.setattr("workers.rounds.ROUND_S", 0.01)
    with valkey(tmp_path) as server, RedisWatch(load_settings(None, [f"redis_url={url_of(server)}"]), told.append):
        wait_until(lambda: len(told) == 2, "that it is back")
    assert told[1] != "Redis is back after 0 s."


def test_a_password_that_is_wrong_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    with valkey(tmp_path / "data") as server, redis.Redis.from_url(url_of(server)) as client:
        client.config_set("requirepass", "right")
        wrong = url_of(server).replace("redis://", "redis://:wrong@")
        monkeypatch.setenv("MCQUEUE_REDIS_URL", wrong)
        said = workers_command("up", "--set", "engine=simulated", "--logs", str(tmp_path), exit_code=1)
        with RedisWatch(load_settings(None, [f"redis_url={wrong}"]), told.append):
            wait_until(lambda: len(told) == 1, "that it is refused")
    assert said.count("refuses the credentials") == 1
    assert "booting" not in said
    assert told[0].endswith("or user is disabled. Check MCQUEUE_REDIS_URL.")


def test_a_plan_that_cannot_be_starts_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1,2")
    said = workers_command(
        "up",
        "--set",
        "gpu_groups=[[0, 1], [1, 2]]",
        "--set",
        "vllm_args.tensor_parallel_size=2",
        "--logs",
        str(tmp_path),
        exit_code=1,
    )
    assert "GPU 1 into 2 groups" in said
    assert "share_gpus: true" in said
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ("hf_model_id=/nope/model", "hf_model_id: no folder /nope/model. Check the path."),
        ("vllm_args.max_modellen=3", "vLLM has no engine argument 'max_modellen'. Did you mean 'max_model_len'?"),
        ('adapters={"mine": "/nope/adapter"}', "/nope/adapter"),
    ],
)
def test_a_worker_that_could_not_boot_is_refused_before_anything_boots(
    redis_ledger: RedisLedger, tmp_path: Path, wrong: str, says: str
) -> None:
    said = workers_command("up", "--set", wrong, "--logs", str(tmp_path / "logs"), exit_code=1)
    assert says in said
    assert not (tmp_path / "logs").exists()


def test_a_host_without_a_worker_to_start_is_told_so_by_up_and_by_check(
    redis_ledger: RedisLedger, tmp_path: Path
) -> None:
    words = ("--set", "engine=simulated", "--set", "gpu_groups=[]", "--set", "cpu_workers=6")
    for said in (workers_command("up", *words, "--logs", str(tmp_path / "logs")), workers_command("check", *words)):
        assert "no worker to start on this host: gpu_groups is [], and there are no indexes" in said
        assert "Leave gpu_groups out" in said


def test_a_model_without_a_worker_here_need_not_be_here(redis_ledger: RedisLedger, tmp_path: Path) -> None:
    words = ("--set", "hf_model_id=/nope/model", "--set", "gpu_groups=[]")
    assert "error" not in workers_command("up", *words, "--logs", str(tmp_path / "logs"))


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGINT])
def test_a_launcher_removes_the_sockets_that_killed_and_drained_workers_leave(
    redis_ledger: RedisLedger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: signal.Signals
) -> None:
    monkeypatch.delenv("VLLM_RPC_BASE_PATH", raising=False)
    with tempfile.TemporaryDirectory(dir="/tmp") as temporary:  # sockets' paths must be short
        monkeypatch.setenv("TMPDIR", temporary)
        with launched(tmp_path, "cpu_workers=2", "simulated.core=true") as up:
            up.wait_ready(2)
            (folder,) = Path(temporary).iterdir()
            cores = [core for pid in up.pids() for core in psutil.Process(pid).children()]
            assert [core.environ()["VLLM_RPC_BASE_PATH"] for core in cores] == [str(folder)] * 2
            (folder / "left").touch()
            os.kill(up.pids()[0], signal.SIGKILL)
            up.wait_ready(3)
            up.process.send_signal(ending)
            assert up.process.wait(timeout=PATIENCE_S) == 0
        assert not list(Path(temporary).iterdir())


def test_a_launcher_removes_what_a_killed_one_left_once_its_workers_have_ended(
    redis_ledger: RedisLedger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("VLLM_RPC_BASE_PATH", raising=False)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    next_one = ("up", "--set", "hf_model_id=/nope/model", "--set", "gpu_groups=[]", "--logs", str(tmp_path / "next"))
    with launched(tmp_path) as up:
        up.wait_ready(1)
        (left,) = temporary.iterdir()
        (pid,) = up.pids()
        os.kill(pid, signal.SIGSTOP)
        up.process.kill()
        up.process.wait()
        workers_command(*next_one)
        assert left.exists()
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not processes_of_session(pid), "the worker to end")
        workers_command(*next_one)
        assert not list(temporary.iterdir())
