"""Where a command runs the engine that it boots by itself."""

from __future__ import annotations

import os
import socket
from types import SimpleNamespace

import pytest

from contract import load_settings
from contract.fleet import Fleet, WorkerRecord, WorkerState
from workers.commands import place
from workers.commands.place import take_first_place
from workers.gpus.groups import Device
from workers.host.machine import Machine


def test_an_engine_is_pinned_to_the_gpus_of_the_first_worker_and_told_who_is_there(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`stability` booted on the first GPU that it saw, though a worker had filled it."""
    there = [
        WorkerRecord(name=f"gpu{gpus.replace(',', '-')}@a", model="m", state=WorkerState.READY, gpus=gpus, host="a")
        for gpus in ("0,1", "2,3")
    ]
    monkeypatch.setattr(Fleet, "connect", lambda _: SimpleNamespace(alive=lambda: there))
    monkeypatch.setattr(place, "this_machine", lambda: Machine([Device(f"{n}") for n in range(4)], [0]))
    monkeypatch.setattr(socket, "gethostname", lambda: "a")
    monkeypatch.setattr(os, "environ", dict(os.environ))

    take_first_place(load_settings(None, ["gpu_groups=[[2, 3], [0, 1]]", "vllm_args.tensor_parallel_size=2"]))

    assert os.environ["CUDA_VISIBLE_DEVICES"] == "2,3"
    assert "other workers use the same GPUs: gpu2-3@a" in capsys.readouterr().err


def test_an_engine_without_a_gpu_has_the_cores_of_the_first_worker_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """`tune` measured with those of all `cpu_workers` what each of them does with its own."""
    bound: list[object] = []
    monkeypatch.setattr(Fleet, "connect", lambda _: SimpleNamespace(alive=list))
    monkeypatch.setattr(place, "this_machine", lambda: Machine([], range(8)))
    monkeypatch.setattr(os, "environ", dict(os.environ))
    monkeypatch.setattr(os, "sched_setaffinity", lambda *to: bound.append(to))

    take_first_place(load_settings(None, ["cpu_workers=2"]))

    assert bound == [(0, (0, 1, 2, 3))]
    assert os.environ["OMP_NUM_THREADS"] == "4"
