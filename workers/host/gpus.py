"""Which GPUs there are, and how they are cut into groups: pure, or an error with the arithmetic. Starts nothing.

A GPU is named by its number, as nvidia-smi has it, or by its UUID or the beginning of one (`GPU-5f3a…`); an instance of
one that is cut into several by its UUID (`MIG-…`) alone.
"""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from contract.errors import PlanError

__all__ = [
    "Device",
    "cut",
    "cut_all",
    "driver_cuda",
    "driver_trouble",
    "find",
    "group_name",
    "handle_of",
    "lost_gpus",
    "memory_used_bytes",
    "model_name",
    "on_the_bus",
    "open_driver",
    "shared",
    "using_driver",
    "visible_gpus",
    "words_of",
]

#: Where Linux lists what is plugged in.
PCI_DEVICES = Path("/sys/bus/pci/devices")
NVIDIA = "0x10de"
#: Begins the class of everything that draws or could: VGA and 3D controllers.
DISPLAY = "0x03"


@dataclass(frozen=True, slots=True)
class Device:
    """A GPU, or an instance of one, that a worker can be pinned to."""

    #: Its number, or for an instance its UUID: what CUDA_VISIBLE_DEVICES gets.
    name: str
    uuid: str = ""
    #: For an instance: the number of the GPU that it is a part of.
    part_of: str = ""

    def is_called(self, word: str) -> bool:
        """Whether `word` means it."""
        return word == self.name or (len(word) > len("GPU-") and bool(self.uuid) and self.uuid.startswith(word))


def visible_gpus(environ: Mapping[str, str] | None = None, driver: Sequence[Device] | None = None) -> list[Device]:
    """What this process may use: CUDA_VISIBLE_DEVICES if it is set, else all that the driver knows."""
    environ = os.environ if environ is None else environ
    driver = _of_driver() if driver is None else driver
    chosen = environ.get("CUDA_VISIBLE_DEVICES")
    if chosen is None:
        return list(driver)
    return [_known(word, driver) or Device(word, word) for word in words_of(chosen)]


def words_of(chosen: str) -> list[str]:
    """What a value of CUDA_VISIBLE_DEVICES calls the GPUs that it lets a process use."""
    return [each.strip() for each in chosen.split(",") if each.strip() not in {"", "-1"}]


def find(word: str, visible: Sequence[Device]) -> Device:
    """The device that `word` means. Raises PlanError if it is not there, or not one."""
    meant = [device for device in visible if device.is_called(word)]
    if len(meant) == 1:
        return meant[0]
    names = ", ".join(device.name for device in visible)
    if meant:
        raise PlanError(f"gpu_groups: {word!r} is the beginning of {len(meant)} UUIDs.", hint="Write more of it.")
    parts = [device.name for device in visible if device.part_of == word]
    if parts:
        raise PlanError(f"gpu_groups asks for GPU {word}, which is cut into {', '.join(parts)}.", hint="Name those.")
    raise PlanError(
        f"gpu_groups asks for GPU {word}; {f'{len(visible)} visible: {names}' if visible else 'none is visible'}.",
        hint="Check nvidia-smi -L and CUDA_VISIBLE_DEVICES, or use gpu_groups: auto.",
    )


def cut(wanted: Sequence[Sequence[int | str]], visible: Sequence[Device], size: int) -> list[tuple[Device, ...]]:
    """The groups that `wanted` names, each of `size` devices (tensor × pipeline parallel size). Raises PlanError."""
    groups = [tuple(find(str(word), visible) for word in group) for group in wanted]
    for group in groups:
        names = ", ".join(device.name for device in group)
        if len(set(group)) < len(group):
            raise PlanError(f"Group [{names}] has a GPU twice.", hint="Name each once.")
        if len(group) != size:
            raise PlanError(
                f"Group [{names}] has {len(group)} GPUs, but the engine uses "
                f"tensor_parallel_size x pipeline_parallel_size = {size}.",
                hint="Make both the same.",
            )
        _refuse_several_instances(group)
    return groups


def cut_all(free: Sequence[Device], size: int) -> list[tuple[Device, ...]]:
    """As many groups of `size` as `free` makes, in order; what is left over stays unused. Raises PlanError for none."""
    groups = [tuple(free[i * size : (i + 1) * size]) for i in range(len(free) // size)]
    if not groups:
        raise PlanError(
            f"The engine uses {size} GPUs per worker (tensor_parallel_size x pipeline_parallel_size); "
            f"{len(free)} visible and not in another group.",
            hint="Lower vllm_args.tensor_parallel_size.",
        )
    for group in groups:
        _refuse_several_instances(group)
    return groups


def shared(groups: Sequence[Sequence[Device]]) -> list[Device]:
    """Devices that stand in more than one group."""
    return [device for device, count in Counter(device for group in groups for device in group).items() if count > 1]


def group_name(group: Sequence[Device]) -> str:
    """What a worker on `group` is called; of a UUID, the first 8 digits do.

    >>> group_name([Device("2"), Device("3")])
    'gpu2-3'
    """
    return "gpu" + "-".join(device.name.removeprefix("MIG-").removeprefix("GPU-")[:8] for device in group)


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


def _refuse_several_instances(group: Sequence[Device]) -> None:
    if len(group) > 1 and any(device.part_of for device in group):
        names = ", ".join(device.name for device in group)
        raise PlanError(f"Group [{names}]: CUDA shows a process one MIG instance, not {len(group)}.", hint="One each.")


def _known(word: str, driver: Sequence[Device]) -> Device | None:
    return next((device for device in driver if device.is_called(word)), None)


def lost_gpus() -> dict[str, str]:
    """GPUs that the driver counts and cannot reach, as one that fell off the bus, by number: what it says of each."""
    return {number: found for number, found in _asked_of_driver() if isinstance(found, str)}


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


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
