"""Hardware utilization of a worker: its GPUs by NVML, and the CPU cores it may use, or its quota of them."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import psutil

from workers.cpu_quota import usable_cores
from workers.gpus.nvidia import handle_of, open_driver

__all__ = ["Gpu", "Hardware", "Host", "resident_bytes"]


@dataclass(frozen=True, slots=True)
class Gpu:
    """Snapshot of a GPU; values that the driver does not provide are None."""

    name: str
    utilization: float | None
    memory_used_bytes: int
    memory_total_bytes: int
    temperature_celsius: float | None


@dataclass(frozen=True, slots=True)
class Host:
    """Snapshot of the machine."""

    #: Utilization by this process tree of the cores it may use, since the last snapshot.
    cpu_utilization: float
    #: Resident memory of this process and its children.
    memory_used_bytes: int
    memory_total_bytes: int
    temperature_celsius: float | None


class Hardware:
    """Takes snapshots of `gpus` (numbers or UUIDs, as in CUDA_VISIBLE_DEVICES) and of the host."""

    def __init__(self, gpus: Sequence[str] = ()) -> None:
        self._process = psutil.Process()
        self._cpu: tuple[float, float] = (time.monotonic(), _cpu_seconds(self._process))
        self._handles = list(_handles(gpus))

    def gpus(self) -> list[Gpu]:
        """Return a snapshot of each GPU, without those the driver no longer answers for."""
        import pynvml

        found = []
        for name, handle in self._handles:
            with contextlib.suppress(pynvml.NVMLError):
                memory = pynvml.nvmlDeviceGetMemoryInfo(handle)
                found.append(
                    Gpu(name, _utilization(handle), int(memory.used), int(memory.total), _gpu_temperature(handle))
                )
        return found

    def host(self) -> Host:
        """Return a snapshot of the machine; utilization is since the last call of this or of `busy`."""
        return Host(
            self._cpu_share(), resident_bytes(self._process), psutil.virtual_memory().total, _host_temperature()
        )

    def busy(self) -> float | None:
        """Return the mean utilization of the GPUs, or of the cores if there is no GPU."""
        if not self._handles:
            return self._cpu_share()
        known = [each.utilization for each in self.gpus() if each.utilization is not None]
        return sum(known) / len(known) if known else None

    def _cpu_share(self) -> float:
        before_s, before_cpu_s = self._cpu
        self._cpu = now_s, cpu_s = time.monotonic(), _cpu_seconds(self._process)
        elapsed_s = (now_s - before_s) * usable_cores()
        return max(0.0, min(1.0, (cpu_s - before_cpu_s) / elapsed_s)) if elapsed_s > 0 else 0.0


def resident_bytes(process: psutil.Process) -> int:
    """Return the resident memory of `process` and its children; 0 if it has ended."""
    return sum(map(_resident_bytes, _tree(process)))


def _handles(gpus: Sequence[str]) -> Iterator[tuple[str, Any]]:
    if not gpus or not open_driver():
        return
    import pynvml

    for name in gpus:
        with contextlib.suppress(pynvml.NVMLError):
            yield name, handle_of(name)


def _utilization(handle: Any) -> float | None:
    import pynvml

    with contextlib.suppress(pynvml.NVMLError):
        return float(pynvml.nvmlDeviceGetUtilizationRates(handle).gpu) / 100
    return None


def _gpu_temperature(handle: Any) -> float | None:
    import pynvml

    with contextlib.suppress(pynvml.NVMLError):
        return float(pynvml.nvmlDeviceGetTemperature(handle, pynvml.NVML_TEMPERATURE_GPU))
    return None


def _tree(process: psutil.Process) -> list[psutil.Process]:
    """Return `process` and its children; without these if the system does not list them."""
    with contextlib.suppress(psutil.Error):
        return [process, *process.children(recursive=True)]
    return [process]


def _cpu_seconds(process: psutil.Process) -> float:
    total = 0.0
    for each in _tree(process):
        with contextlib.suppress(psutil.Error):
            times = each.cpu_times()
            total += times.user + times.system
    return total


def _resident_bytes(process: psutil.Process) -> int:
    with contextlib.suppress(psutil.Error):
        return int(process.memory_info().rss)
    return 0


def _host_temperature() -> float | None:
    sensors: dict[str, Any] = psutil.sensors_temperatures() if hasattr(psutil, "sensors_temperatures") else {}
    readings = [each.current for name in ("coretemp", "k10temp", "cpu_thermal") for each in sensors.get(name, ())]
    return max(readings, default=None)
