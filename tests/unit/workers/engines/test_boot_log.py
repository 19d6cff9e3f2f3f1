"""What the log says while vLLM boots, and what a worker says of its GPUs."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

from contract.settings import load_settings
from workers.engines import boot_log as module
from workers.engines.boot_log import booting, gpu_models, gpus_in_use
from workers.gpus.groups import Device

THREE = [Device("0"), Device("1"), Device("2")]


def said(caplog: pytest.LogCaptureFixture, gpus: list[Device], **vllm_args: Any) -> list[str]:
    with pytest.MonkeyPatch.context() as patch, caplog.at_level("INFO"):
        patch.setattr(module, "is_cpu_build", lambda: not gpus)
        patch.setattr(module, "visible_gpus", lambda: gpus)
        patch.setattr(module, "model_name", lambda _: "NVIDIA H100")
        with booting(load_settings(None, [f"vllm_args={json.dumps(vllm_args)}"]), "some/model"):
            pass
    return caplog.messages


def test_a_boot_on_a_gpu_says_where_and_what_may_take_minutes_then_how_long_it_took(
    caplog: pytest.LogCaptureFixture,
) -> None:
    began, ended = said(caplog, THREE, tensor_parallel_size=2)
    where = "booting vLLM with some/model on GPU 0,1 (NVIDIA H100)"
    assert began == f"{where}; compiling and capturing CUDA graphs may take minutes the first time"
    assert ended == "vLLM is up after 0 s"


def test_what_does_not_compile_is_not_said_to_take_minutes(caplog: pytest.LogCaptureFixture) -> None:
    assert said(caplog, [], enforce_eager=True)[0] == "booting vLLM with some/model on the CPU"


def test_a_boot_under_a_cpu_quota_says_how_many_cores_it_leaves(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(64)))
    monkeypatch.setattr(module, "cores_by_quota", lambda: 8)
    where = "booting vLLM with some/model on 8 of 64 cores, the container's CPU quota"
    assert said(caplog, [], enforce_eager=True)[0] == where


def test_a_boot_that_fails_is_not_said_to_be_up(caplog: pytest.LogCaptureFixture) -> None:
    with (
        caplog.at_level("INFO"),
        pytest.raises(ValueError, match="no room"),
        booting(load_settings(None), "some/model"),
    ):
        raise ValueError("no room")
    assert len(caplog.messages) == 1


def test_gpus_are_told_by_kind_and_those_of_other_workers_not_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = {"0": "NVIDIA H100", "1": "NVIDIA H100", "2": "NVIDIA A100", "3": ""}
    monkeypatch.setattr(module, "model_name", kinds.__getitem__)
    monkeypatch.setattr(module, "is_cpu_build", lambda: False)
    monkeypatch.setattr(module, "visible_gpus", lambda: [Device(name) for name in kinds])
    assert gpu_models([Device(name) for name in kinds]) == "NVIDIA H100, NVIDIA A100"
    assert [each.name for each in gpus_in_use(load_settings(None))] == ["0"]
