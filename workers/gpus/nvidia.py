"""The GPUs of this machine according to NVIDIA's driver; none without a driver."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from workers.gpus.groups import Device, names_in

__all__ = [
    "driver_cuda",
    "driver_trouble",
    "handle_of",
    "lost_gpus",
    "memory_used_bytes",
    "model_name",
    "on_the_bus",
    "open_driver",
    "undivided_gpus",
    "visible_gpus",
]

#: Where Linux lists PCI devices.
PCI_DEVICES = Path("/sys/bus/pci/devices")
NVIDIA = "0x10de"
#: Prefix of the PCI class of display controllers: VGA and 3D.
DISPLAY = "0x03"


def visible_gpus() -> list[Device]:
    """Return the GPUs this process may use, each once: CUDA_VISIBLE_DEVICES if set, else all that the driver knows.

    Those that cannot be used (`lost_gpus`, `undivided_gpus`) are left out. A name in CUDA_VISIBLE_DEVICES that the
    driver does not know is kept: CUDA may know it.
    """
    asked = dict(_query_driver())
    usable = {number: found for number, found in asked.items() if found and not isinstance(found, str)}
    driver = [device for of_gpu in usable.values() for device in of_gpu]
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    if chosen is None:
        return driver
    words = [word for word in names_in(chosen) if word in usable or word not in asked]
    named = (next((device for device in driver if device.is_called(word)), Device(word, word)) for word in words)
    return list(dict.fromkeys(named))


def lost_gpus() -> dict[str, str]:
    """Return GPUs that the driver counts but cannot reach (e.g. fallen off the bus): number → error."""
    return {number: found for number, found in _query_driver() if isinstance(found, str)}


def undivided_gpus() -> list[str]:
    """Return the numbers of GPUs in MIG mode without an instance here: CUDA does not see them."""
    return [number for number, found in _query_driver() if not found]


def memory_used_bytes(names: Sequence[str]) -> int | None:
    """Return the GPU memory in use on `names` by any process; None if the driver does not say."""
    import pynvml

    with using_driver() as works:
        if not works or not names:
            return None
        try:
            return sum(int(pynvml.nvmlDeviceGetMemoryInfo(handle_of(name)).used) for name in names)
        except pynvml.NVMLError:
            return None


def model_name(name: str) -> str:
    """Return the GPU model, like `NVIDIA H100 80GB HBM3`; empty if the driver does not say."""
    import pynvml

    with using_driver() as works:
        if not works:
            return ""
        try:
            return _text(pynvml.nvmlDeviceGetName(handle_of(name)))
        except pynvml.NVMLError:
            return ""


def driver_cuda() -> int | None:
    """Return the major version of the newest CUDA that the driver supports; None without a driver.

    0 if its library for CUDA is missing: a container may be given only what shows GPUs.
    """
    import pynvml

    with using_driver() as works:
        try:
            return int(pynvml.nvmlSystemGetCudaDriverVersion_v2()) // 1000 if works else None
        except pynvml.NVMLError_LibraryNotFound:
            return 0


def driver_trouble() -> str | None:
    """Return the error of a driver that does not work; empty if there is no driver, None if it works."""
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
    """Return the number of NVIDIA GPUs on the PCI bus, which the kernel sees even without a driver."""

    def says(device: Path, name: str) -> str:
        with contextlib.suppress(OSError):
            return (device / name).read_text().strip()
        return ""

    devices = list(PCI_DEVICES.glob("*"))
    return sum(says(each, "vendor") == NVIDIA and says(each, "class").startswith(DISPLAY) for each in devices)


def handle_of(name: str) -> Any:
    """Return the NVML handle of the device named as in CUDA_VISIBLE_DEVICES. Raises NVMLError."""
    import pynvml

    by_uuid = pynvml.nvmlDeviceGetHandleByUUID
    return pynvml.nvmlDeviceGetHandleByIndex(int(name)) if name.isdigit() else by_uuid(name)


@contextlib.contextmanager
def using_driver() -> Iterator[bool]:
    """Open NVIDIA's driver for the block; yield False if there is none."""
    import pynvml

    works = open_driver()
    try:
        yield works
    finally:
        if works:
            pynvml.nvmlShutdown()


def open_driver() -> bool:
    """Open NVIDIA's driver for the lifetime of this process; return False if there is none."""
    import pynvml

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return False
    return True


def _query_driver() -> Iterator[tuple[str, list[Device] | str]]:
    """Yield each GPU's number with its usable devices, or with the driver's error if it cannot reach it.

    A lost GPU does not affect the others. GPUs that this process may not use, as a batch system gave them
    to another job, are left out.
    """
    import pynvml

    with using_driver() as works:
        for number in range(pynvml.nvmlDeviceGetCount() if works else 0):
            try:
                yield str(number), _devices(number)
            except pynvml.NVMLError_NoPermission:
                continue
            except pynvml.NVMLError as trouble:
                yield str(number), str(trouble)


def _devices(number: int) -> list[Device]:
    """Return the GPU of that number or, in MIG mode, those of its instances that this container may use, if any.

    Raises NVMLError if the driver cannot reach the GPU.
    """
    import pynvml

    handle = pynvml.nvmlDeviceGetHandleByIndex(number)
    if not _is_in_mig_mode(handle):
        return [Device(str(number), _text(pynvml.nvmlDeviceGetUUID(handle)))]
    found = []
    for i in range(pynvml.nvmlDeviceGetMaxMigDeviceCount(handle)):
        with contextlib.suppress(pynvml.NVMLError_NotFound, pynvml.NVMLError_NoPermission):
            uuid = _text(pynvml.nvmlDeviceGetUUID(pynvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, i)))
            found.append(Device(uuid, uuid, part_of=str(number)))
    return found


def _is_in_mig_mode(gpu: Any) -> bool:
    import pynvml

    with contextlib.suppress(pynvml.NVMLError_NotSupported):
        return bool(pynvml.nvmlDeviceGetMigMode(gpu)[0] == pynvml.NVML_DEVICE_MIG_ENABLE)
    return False


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
