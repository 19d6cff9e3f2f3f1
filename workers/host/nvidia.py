"""Which GPUs this machine has, and what NVIDIA's driver says of them. Where there is no driver, there are none."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from workers.host.gpus import Device, words_of

__all__ = [
    "driver_cuda",
    "driver_trouble",
    "handle_of",
    "lost_gpus",
    "memory_used_bytes",
    "model_name",
    "on_the_bus",
    "open_driver",
    "using_driver",
    "visible_gpus",
]

#: Where Linux lists what is plugged in.
PCI_DEVICES = Path("/sys/bus/pci/devices")
NVIDIA = "0x10de"
#: Begins the class of everything that draws or could: VGA and 3D controllers.
DISPLAY = "0x03"


def visible_gpus(environ: Mapping[str, str] | None = None, driver: Sequence[Device] | None = None) -> list[Device]:
    """What this process may use: CUDA_VISIBLE_DEVICES if it is set, else all that the driver knows."""
    environ = os.environ if environ is None else environ
    driver = _of_driver() if driver is None else driver
    chosen = environ.get("CUDA_VISIBLE_DEVICES")
    if chosen is None:
        return list(driver)
    return [
        next((device for device in driver if device.is_called(word)), Device(word, word)) for word in words_of(chosen)
    ]


def lost_gpus() -> dict[str, str]:
    """By number, GPUs that the driver counts and cannot reach, as one that fell off the bus: what it says of each."""
    return {number: found for number, found in _asked_of_driver() if isinstance(found, str)}


def memory_used_bytes(names: Sequence[str]) -> int | None:
    """GPU memory in use on `names`, as the driver has it, whoever uses it; None where it does not say."""
    import pynvml

    with using_driver() as works:
        if not works or not names:
            return None
        try:
            return sum(int(pynvml.nvmlDeviceGetMemoryInfo(handle_of(name)).used) for name in names)
        except pynvml.NVMLError:
            return None


def model_name(name: str) -> str:
    """What the device is, like `NVIDIA H100 80GB HBM3`, by the driver; empty where it does not say."""
    import pynvml

    with using_driver() as works:
        if not works:
            return ""
        try:
            return _text(pynvml.nvmlDeviceGetName(handle_of(name)))
        except pynvml.NVMLError:
            return ""


def driver_cuda() -> int | None:
    """The newest CUDA that the driver can run, by its major version; None where there is no driver."""
    import pynvml

    with using_driver() as works:
        return int(pynvml.nvmlSystemGetCudaDriverVersion_v2()) // 1000 if works else None


def driver_trouble() -> str | None:
    """What NVIDIA's driver says where it does not work; empty where there is none, None where it works."""
    import pynvml

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError_LibraryNotFound:
        return ""
    except pynvml.NVMLError as trouble:
        return str(trouble)
    pynvml.nvmlShutdown()
    return None


def on_the_bus() -> int:
    """NVIDIA GPUs that are plugged into this machine, as the kernel sees them without a driver."""

    def says(device: Path, name: str) -> str:
        with contextlib.suppress(OSError):
            return (device / name).read_text().strip()
        return ""

    devices = list(PCI_DEVICES.glob("*"))
    return sum(says(each, "vendor") == NVIDIA and says(each, "class").startswith(DISPLAY) for each in devices)


def handle_of(name: str) -> Any:
    """The driver's handle of the device that CUDA_VISIBLE_DEVICES calls `name`. Raises NVMLError."""
    import pynvml

    by_uuid = pynvml.nvmlDeviceGetHandleByUUID
    return pynvml.nvmlDeviceGetHandleByIndex(int(name)) if name.isdigit() else by_uuid(name)


@contextlib.contextmanager
def using_driver() -> Iterator[bool]:
    """NVIDIA's driver, open in the block; False where there is none."""
    import pynvml

    works = open_driver()
    try:
        yield works
    finally:
        if works:
            pynvml.nvmlShutdown()


def open_driver() -> bool:
    """Open NVIDIA's driver for as long as this process lives; False where there is none."""
    import pynvml

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return False
    return True


def _of_driver() -> list[Device]:
    """What the driver reaches: one GPU that is lost costs nobody the others."""
    return [device for _, found in _asked_of_driver() if not isinstance(found, str) for device in found]


def _asked_of_driver() -> Iterator[tuple[str, list[Device] | str]]:
    """Every GPU by its number: what can be used of it, or what the driver says where it cannot reach it."""
    import pynvml

    with using_driver() as works:
        for number in range(pynvml.nvmlDeviceGetCount() if works else 0):
            try:
                yield str(number), _devices(number)
            except pynvml.NVMLError as trouble:
                yield str(number), str(trouble)


def _devices(number: int) -> list[Device]:
    """The GPU of that number, or the instances that it is cut into. Raises NVMLError where the driver lost it."""
    import pynvml

    handle = pynvml.nvmlDeviceGetHandleByIndex(number)
    instances = [Device(uuid, uuid, part_of=str(number)) for uuid in _instances(handle)]
    return instances or [Device(str(number), _text(pynvml.nvmlDeviceGetUUID(handle)))]


def _instances(gpu: Any) -> Iterator[str]:
    """UUIDs of the instances that a GPU in MIG mode is cut into."""
    import pynvml

    try:
        if pynvml.nvmlDeviceGetMigMode(gpu)[0] != pynvml.NVML_DEVICE_MIG_ENABLE:
            return
        for i in range(pynvml.nvmlDeviceGetMaxMigDeviceCount(gpu)):
            with contextlib.suppress(pynvml.NVMLError_NotFound):
                yield _text(pynvml.nvmlDeviceGetUUID(pynvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu, i)))
    except pynvml.NVMLError_NotSupported:
        return


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
