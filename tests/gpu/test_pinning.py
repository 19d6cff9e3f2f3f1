"""Pinning on the GPUs of this machine: what a planned worker's Python sees, and a worker at work on one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from benchmarks.stand import set_words
from contract import RedisLedger
from contract.fleet import Fleet
from contract.settings import load_fleet
from tests.support import PATIENCE_S, ROOT, command, process, wait_until
from workers.gpus.groups import Device
from workers.gpus.nvidia import visible_gpus
from workers.host.machine import Machine
from workers.host.placement import SettingsSources, WorkerPlan, plan_host

pytestmark = pytest.mark.gpu

SEEN = """
import json, torch
devices = [torch.cuda.get_device_properties(i) for i in range(torch.cuda.device_count())]
print(json.dumps([str(each.uuid) for each in devices]))
"""


@pytest.fixture(scope="module")
def devices() -> list[Device]:
    found = visible_gpus()
    assert found, "no GPU is visible"
    return found


def seen_by(plan: WorkerPlan) -> list[str]:
    """UUIDs of the GPUs that a Python with the plan's environment sees."""
    done = subprocess.run(
        [sys.executable, "-c", SEEN], env={**os.environ, **plan.environment}, capture_output=True, text=True, check=True
    )
    return [f"GPU-{each.removeprefix('GPU-')}" for each in json.loads(done.stdout)]


def test_each_planned_worker_sees_its_own_gpu_and_no_other(devices: list[Device]) -> None:
    plans, _ = plan_host(load_fleet(None, ["gpu_groups=auto"]), Machine(devices, [0]), SettingsSources())
    with ThreadPoolExecutor() as pool:  # each imports torch
        assert list(pool.map(seen_by, plans)) == [[device.uuid] for device in devices]


def test_a_gpu_named_by_its_uuid_is_the_same_one(devices: list[Device]) -> None:
    wanted = f"gpu_groups=[[{devices[-1].uuid}]]"
    (plan,), _ = plan_host(load_fleet(None, [wanted]), Machine(devices, [0]), SettingsSources())
    assert seen_by(plan) == [devices[-1].uuid]


def test_a_worker_on_one_gpu_scores(devices: list[Device], redis_ledger: RedisLedger, tmp_path: Path) -> None:
    wanted = (
        f"gpu_groups=[[{devices[0].name}]]",
        "vllm_args.gpu_memory_utilization=0.3",
        "vllm_args.enforce_eager=true",
    )
    settings = set_words(wanted)
    log = tmp_path / "up.log"
    with process("-m", "workers", "up", *settings, "--logs", str(tmp_path), log=log) as launcher:
        wait_until(
            lambda: launcher.poll() is not None or "ready after" in log.read_text(),
            f"vLLM; see {log}",
            timeout_s=2 * PATIENCE_S,
        )
        assert launcher.poll() is None, log.read_text()
        (record,) = Fleet(redis_ledger.client).alive()
        assert (record.gpus, record.engine["device"]) == (devices[0].name, "cuda")
        asked = (str(ROOT / "demo" / "questions.jsonl"), "--limit", "20", "--watch", "--json", "--out", str(tmp_path))
        done = command("-m", "producer", "enqueue", *asked, timeout_s=PATIENCE_S)
        verdicts = [verdict for _, verdict in redis_ledger.results(json.loads(done.stdout)["run_id"])]
        assert all(verdict and verdict.error is None for verdict in verdicts)
