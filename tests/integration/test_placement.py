"""Where a host's workers run: GPUs, cores, and several models."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import psutil
import pytest
from celery import Celery

from contract import Outcome, RedisLedger
from contract.fleet import Fleet
from tests.integration.launching import Launched, launched, names, workers_command
from tests.integration.runs import send, verdicts, wait_finished
from tests.support import (
    make_questions,
    open_run,
    process,
)
from workers.host.child import Child
from workers.host.launcher import Supervisor
from workers.host.placement import WorkerPlan

#: Python runs this at its start, before it imports anything that it was asked to.
AT_START = """
import os, pathlib
pathlib.Path(__file__).with_name(f"pin-{os.getpid()}").write_text(os.environ.get("CUDA_VISIBLE_DEVICES", "unset"))
"""


def test_each_worker_sees_its_own_gpus_from_the_start_of_its_python(
    redis_ledger: RedisLedger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text(AT_START)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1,GPU-5f3a0000")
    with launched(tmp_path, "gpu_groups=[[1], [GPU-5f3a]]") as up:
        up.wait_ready(2)
        pins = [(tmp_path / f"pin-{pid}").read_text() for pid in up.pids()]
        assert pins == ["1", "GPU-5f3a0000"]
        assert names(redis_ledger) == ["gpu1", "gpu5f3a0000"]
        assert [each.gpus for each in Fleet(redis_ledger.client).alive()] == pins


READY_AT_ONCE = "import os, time; os.write(int(os.environ['MCQUEUE_READY_FD']), b'ready'); time.sleep(60)"


@pytest.mark.usefixtures("own_signals")
def test_workers_that_share_a_gpu_boot_one_after_the_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plans = [WorkerPlan(name, "m", gpus=gpus) for name, gpus in {"a": ("0", "1"), "b": ("1",), "c": ("2",)}.items()]
    monkeypatch.setattr("workers.host.launcher.worker_command", lambda *_: [sys.executable, "-c", READY_AT_ONCE])
    told: list[str] = []

    def stop_when_all_are_ready(children: Sequence[Child]) -> None:
        if all(child.state == "ready" for child in children):
            os.kill(os.getpid(), signal.SIGTERM)

    Supervisor(plans, tmp_path, told.append, stop_when_all_are_ready).run()

    def when(name: str, what: str) -> int:
        return next(i for i, line in enumerate(told) if line.startswith(f"{name}@") and what in line)

    assert when("a", "ready after") < when("b", "booting")
    assert when("c", "booting") < when("a", "ready after")


def test_two_workers_of_one_model_share_a_gpu_under_names_and_logs_of_their_own(
    redis_ledger: RedisLedger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    sharing = ("gpu_groups=[[0], [0]]", "share_gpus=true", "vllm_args.gpu_memory_utilization=0.4")
    with launched(tmp_path, *sharing) as up:
        up.wait_ready(2)
        assert sorted(names(redis_ledger)) == ["gpu0", "gpu0.2"]
        assert {path.name for path in tmp_path.glob("gpu*")} == {"gpu0.log", "gpu0.2.log"}
        workers_command("drain", "gpu0.2")
        assert names(redis_ledger) == ["gpu0"]


def test_workers_without_a_gpu_keep_to_their_own_cores(redis_ledger: RedisLedger, tmp_path: Path) -> None:
    cores = sorted(os.sched_getaffinity(0))
    assert len(cores) >= 2, "needs two cores"
    with launched(tmp_path, "cpu_workers=2") as up:
        up.wait_ready(2)
        bound = [set(psutil.Process(pid).cpu_affinity()) for pid in up.pids()]
    share = len(cores) // 2
    assert bound == [set(cores[:share]), set(cores[share : 2 * share])]


def test_one_file_starts_the_workers_of_several_models_each_with_its_queue(
    app: Celery, redis_ledger: RedisLedger, tmp_path: Path
) -> None:
    file = tmp_path / "two.yaml"
    file.write_text("engine: simulated\nbatch_timeout: 0.1\nmodels: [{model: large}, {model: small, cpu_workers: 2}]\n")
    with process(
        "-m", "workers", "up", "--config", str(file), "--logs", str(tmp_path), log=tmp_path / "up.log"
    ) as child:
        up = Launched(child, tmp_path)
        up.wait_ready(3)
        assert names(redis_ledger) == ["large-cpu0", "small-cpu1", "small-cpu2"]
        runs = {
            model: open_run(redis_ledger, make_questions(40), name=model, model=model) for model in ("large", "small")
        }
        for run in runs.values():
            send(app, redis_ledger, run)
        for model, run in runs.items():
            wait_finished(redis_ledger, run)
            settled = verdicts(redis_ledger, run)
            assert {verdict.worker.partition("-")[0] for verdict in settled} == {model}
            assert {verdict.outcome for verdict in settled} <= {Outcome.CORRECT, Outcome.WRONG}
        assert {path.name for path in tmp_path.glob("*cpu*.log")} == {
            "large-cpu0.log",
            "small-cpu1.log",
            "small-cpu2.log",
        }
