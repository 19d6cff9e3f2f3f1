"""An engine on a MIG instance, by vLLM's own code and a driver that numbers GPUs and instances as NVIDIA's does."""

from __future__ import annotations

import importlib
import sys
import tomllib
from importlib.metadata import EntryPoint
from types import ModuleType
from typing import Any

import pytest

from tests.support import ROOT
from workers.engines.mig_instance import ask_about_its_gpu

#: By UUID: the number of its GPU, and its own within that.
INSTANCES = {"MIG-11aa": (0, 0), "MIG-22bb": (0, 1), "MIG-33cc": (1, 1)}


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> Any:
    """vLLM's CUDA platform, on a host with an H100 and an A100 that are split into instances."""
    # The CPU build lacks the compiled operations that the module loads for GPUs.
    monkeypatch.setitem(sys.modules, "vllm._C_stable_libtorch", ModuleType("vllm._C_stable_libtorch"))
    cuda = importlib.import_module("vllm.platforms.cuda")
    driver, platform = cuda.pynvml, cuda.NvmlCudaPlatform

    def gpu(number: int) -> tuple[int]:
        if number > 1:
            raise driver.NVMLError(driver.NVML_ERROR_INVALID_ARGUMENT)
        return (number,)

    answers = {
        "nvmlInit": lambda: None,
        "nvmlShutdown": lambda: None,
        "nvmlDeviceGetHandleByIndex": gpu,
        "nvmlDeviceGetHandleByUUID": INSTANCES.__getitem__,
        "nvmlDeviceGetIndex": lambda handle: handle[-1],
        "nvmlDeviceGetDeviceHandleFromMigDeviceHandle": lambda handle: handle[:1],
        "nvmlDeviceGetCudaComputeCapability": lambda handle: [(9, 0), (8, 0)][handle[0]],
    }
    for name, answer in answers.items():
        monkeypatch.setattr(driver, name, answer)
    name = "device_control_id_to_physical_device_id"
    monkeypatch.setattr(platform, name, platform.__dict__[name])  # restored afterwards
    yield cuda
    platform.get_device_capability.cache_clear()


@pytest.mark.parametrize(("instance", "major"), [("MIG-11aa", 9), ("MIG-22bb", 9), ("MIG-33cc", 8)])
def test_an_engine_on_a_mig_instance_asks_about_the_gpu_that_this_is_a_part_of(
    cuda: Any, monkeypatch: pytest.MonkeyPatch, instance: str, major: int
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", instance)
    ask_about_its_gpu()
    cuda.NvmlCudaPlatform.get_device_capability.cache_clear()
    assert cuda.NvmlCudaPlatform.get_device_capability().major == major


def test_on_whole_gpus_vllm_counts_as_before(cuda: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    before = cuda.NvmlCudaPlatform.__dict__["device_control_id_to_physical_device_id"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    ask_about_its_gpu()
    assert cuda.NvmlCudaPlatform.__dict__["device_control_id_to_physical_device_id"] is before
    assert cuda.NvmlCudaPlatform.get_device_capability().major == 8


def test_vllm_calls_it_before_it_has_chosen_a_platform_and_still_chooses_its_own(
    cuda: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (told,) = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"][
        "vllm.platform_plugins"
    ].values()
    found = EntryPoint("mcqueue", told, "vllm.platform_plugins").load()
    assert found is ask_about_its_gpu
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "MIG-22bb")
    monkeypatch.setattr("vllm.platforms.load_plugins_by_group", lambda _: {"mcqueue": found})
    platforms = importlib.import_module("vllm.platforms")
    before = cuda.NvmlCudaPlatform.__dict__["device_control_id_to_physical_device_id"]
    assert platforms.resolve_current_platform_cls_qualname() == "vllm.platforms.cpu.CpuPlatform"
    assert cuda.NvmlCudaPlatform.__dict__["device_control_id_to_physical_device_id"] is not before
