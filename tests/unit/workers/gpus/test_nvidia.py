"""Which GPUs there are, by a driver that answers as NVIDIA's does."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NoReturn

import pynvml
import pytest

from tests.unit.workers.gpus.hosts import EIGHT
from workers.commands import launch
from workers.gpus import nvidia
from workers.gpus.groups import Device
from workers.gpus.nvidia import driver_cuda, driver_trouble, lost_gpus, model_name, on_the_bus, visible_gpus
from workers.host import gpu_trouble
from workers.host.diagnostics import check_gpu_build, report_lost
from workers.host.launcher import Supervisor
from workers.host.machine import Machine


@pytest.mark.parametrize(
    ("variable", "expected"),
    [
        ("0,2", ["0", "2"]),
        ("", []),
        ("-1", []),
        ("NoDevFiles", []),  # Slurm's word for a job that asked for no GPU
        ("1,-1,2", ["1"]),
        ("GPU-3aaa", ["3"]),
        ("2,2,GPU-2aaa,1", ["2", "1"]),
        ("MIG-unknown-to-the-driver", ["MIG-unknown-to-the-driver"]),
        (None, list("01234567")),
    ],
)
def test_what_the_person_made_visible_is_all_there_is(
    variable: str | None, expected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nvidia, "_query_driver", lambda: [(each.name, [each]) for each in EIGHT])
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if variable is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", variable)
    assert [device.name for device in visible_gpus()] == expected


def test_what_cuda_a_driver_is_for_is_asked_of_the_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pynvml.nvmlInit", lambda: None)
    monkeypatch.setattr("pynvml.nvmlShutdown", lambda: None)
    monkeypatch.setattr("pynvml.nvmlSystemGetCudaDriverVersion_v2", lambda: 12080)
    assert driver_cuda() == 12


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (pynvml.NVML_ERROR_LIBRARY_NOT_FOUND, ""),
        (pynvml.NVML_ERROR_DRIVER_NOT_LOADED, "Driver Not Loaded"),
    ],
)
def test_a_driver_that_does_not_work_is_told_from_none(monkeypatch: pytest.MonkeyPatch, error: int, said: str) -> None:
    def fails() -> None:
        raise pynvml.NVMLError(error)

    monkeypatch.setattr("pynvml.nvmlInit", fails)
    assert driver_trouble() == said


def test_gpus_without_a_driver_are_counted_on_the_bus(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    plugged = {"gpu": ("0x10de", "0x030200"), "its sound": ("0x10de", "0x040300"), "other": ("0x1002", "0x030000")}
    for name, (vendor, kind) in plugged.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "vendor").write_text(f"{vendor}\n")
        (tmp_path / name / "class").write_text(f"{kind}\n")
    (tmp_path / "says nothing").mkdir()
    monkeypatch.setattr(nvidia, "PCI_DEVICES", tmp_path)
    assert on_the_bus() == 1


def test_what_a_gpu_is_is_asked_of_the_driver_by_number_or_uuid(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {0: "NVIDIA A100-SXM4-80GB", "MIG-11aa": b"NVIDIA H100 80GB HBM3 MIG 1g.10gb"}

    def handle(name: object) -> object:
        if name not in known:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)
        return name

    for entry in ("nvmlInit", "nvmlShutdown"):
        monkeypatch.setattr(f"pynvml.{entry}", lambda: None)
    for entry in ("nvmlDeviceGetHandleByIndex", "nvmlDeviceGetHandleByUUID"):
        monkeypatch.setattr(f"pynvml.{entry}", handle)
    monkeypatch.setattr("pynvml.nvmlDeviceGetName", known.__getitem__)
    told = [model_name(name) for name in ("0", "MIG-11aa", "7")]
    assert told == ["NVIDIA A100-SXM4-80GB", "NVIDIA H100 80GB HBM3 MIG 1g.10gb", ""]


def test_a_gpu_that_fell_off_the_bus_costs_nobody_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    def handle(number: int) -> int:
        if error := errors.get(number):
            raise pynvml.NVMLError(error)
        return number

    errors = {1: pynvml.NVML_ERROR_GPU_IS_LOST, 3: pynvml.NVML_ERROR_NO_PERMISSION}

    def no_mig(_: int) -> None:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)

    for entry in ("nvmlInit", "nvmlShutdown"):
        monkeypatch.setattr(f"pynvml.{entry}", lambda: None)
    monkeypatch.setattr("pynvml.nvmlDeviceGetCount", lambda: 4)
    monkeypatch.setattr("pynvml.nvmlDeviceGetHandleByIndex", handle)
    monkeypatch.setattr("pynvml.nvmlDeviceGetMigMode", no_mig)
    monkeypatch.setattr("pynvml.nvmlDeviceGetUUID", "GPU-{}".format)

    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert visible_gpus() == [Device("0", "GPU-0"), Device("2", "GPU-2")]
    (told,) = report_lost(lost_gpus())
    assert told.level == "warning"
    assert "the driver cannot reach GPU 1 (GPU is lost): no worker is planned on it" in told.found
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1,2,3")
    assert [each.name for each in visible_gpus()] == ["0", "2", "3"], "a batch system may number only a job's own GPUs"


def test_a_launcher_says_of_a_gpu_that_is_lost_and_of_a_broken_driver_what_check_says(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """After an update of the driver, a host of eight GPUs quietly was one CPU worker."""
    monkeypatch.setattr(gpu_trouble, "lost_gpus", lambda: {"3": "GPU is lost"})
    monkeypatch.setattr(gpu_trouble, "driver_trouble", lambda: "Driver/library version mismatch")
    monkeypatch.setattr(launch, "this_machine", lambda: Machine([], [0, 1]))
    monkeypatch.setattr(Supervisor, "run", lambda _: 0)
    monkeypatch.setattr("contract.logs.set_up", lambda _: None)
    with (tmp_path / "said").open("w+") as said, monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", said)
        with pytest.raises(SystemExit):
            launch.up.main(["--set", "redis_url=redis://127.0.0.1:1"])
        said.seek(0)
        lines = said.read()
    assert "warning: the driver cannot reach GPU 3 (GPU is lost): no worker is planned on it." in lines
    assert "warning: NVIDIA's driver does not work (Driver/library version mismatch): workers run on the CPU." in lines


def test_a_container_that_has_one_instance_of_a_gpu_sees_that_one(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = {0: pynvml.NVML_ERROR_NO_PERMISSION, 2: pynvml.NVML_ERROR_NOT_FOUND}

    def instance(_: object, number: int) -> str:
        if number in refused:
            raise pynvml.NVMLError(refused[number])
        return f"MIG-{number}"

    answers = {
        "nvmlInit": lambda: None,
        "nvmlShutdown": lambda: None,
        "nvmlDeviceGetCount": lambda: 1,
        "nvmlDeviceGetHandleByIndex": lambda number: number,
        "nvmlDeviceGetMigMode": lambda _: [pynvml.NVML_DEVICE_MIG_ENABLE, pynvml.NVML_DEVICE_MIG_ENABLE],
        "nvmlDeviceGetMaxMigDeviceCount": lambda _: 3,
        "nvmlDeviceGetMigDeviceHandleByIndex": instance,
        "nvmlDeviceGetUUID": str,
    }
    for name, answer in answers.items():
        monkeypatch.setattr(f"pynvml.{name}", answer)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert visible_gpus() == [Device("MIG-1", "MIG-1", part_of="0")]
    assert lost_gpus() == {}


@pytest.mark.parametrize(("chosen", "expected"), [(None, ["1"]), ("0,1", ["1"])])
def test_a_gpu_in_mig_mode_without_an_instance_gets_no_worker_and_it_is_said_why(
    monkeypatch: pytest.MonkeyPatch, chosen: str | None, expected: list[str]
) -> None:
    """A restart of the machine keeps the mode and loses the instances: CUDA then sees no such GPU."""

    def none_there(*_: object) -> None:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)

    answers = {
        "nvmlInit": lambda: None,
        "nvmlShutdown": lambda: None,
        "nvmlDeviceGetCount": lambda: 2,
        "nvmlDeviceGetHandleByIndex": lambda number: number,
        "nvmlDeviceGetMigMode": lambda number: [number == 0, number == 0],
        "nvmlDeviceGetMaxMigDeviceCount": lambda _: 7,
        "nvmlDeviceGetMigDeviceHandleByIndex": none_there,
        "nvmlDeviceGetUUID": "GPU-{}".format,
    }
    for name, answer in answers.items():
        monkeypatch.setattr(f"pynvml.{name}", answer)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if chosen is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", chosen)
    assert [each.name for each in visible_gpus()] == expected
    (told,) = gpu_trouble.gpu_trouble([], visible_gpus())
    assert told.level == "warning"
    assert told.found == "GPU 0 is in MIG mode, but has no instance: no worker is planned on it"
    assert "nvidia-smi -i 0 -mig 0" in told.remedy


def no_library() -> NoReturn:
    """As NVML says it where a library of the driver is not there."""
    raise pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)


def test_a_driver_without_its_library_for_cuda_is_told_from_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """A container may be given the driver to look at its GPUs, and not to compute on them."""
    monkeypatch.setattr("pynvml.nvmlInit", lambda: None)
    monkeypatch.setattr("pynvml.nvmlShutdown", lambda: None)
    monkeypatch.setattr("pynvml.nvmlSystemGetCudaDriverVersion_v2", no_library)
    (told,) = check_gpu_build(driver_cuda(), 13, [])
    assert (told.level, told.found) == ("error", "the driver's libcuda.so.1 is not here: nothing can use a GPU")
    assert "NVIDIA_DRIVER_CAPABILITIES=compute,utility" in told.remedy


def test_without_a_driver_there_is_no_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pynvml.nvmlInit", no_library)
    assert driver_cuda() is None
