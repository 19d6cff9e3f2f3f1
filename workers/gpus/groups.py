"""Names of GPUs, and their division into groups. Pure; errors show the arithmetic.

A GPU is named by its number in nvidia-smi, or by its UUID or a prefix of it (`GPU-5f3a…`); a MIG instance only by its
UUID (`MIG-…`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

from contract.errors import PlanError
from contract.settings.fields import PARALLEL_SIZES
from contract.wording import number

__all__ = [
    "OPTION",
    "Device",
    "find",
    "group_name",
    "groups_as_written",
    "groups_of_all",
    "named_groups",
    "names_in",
    "shared_devices",
]

#: Where a user names GPUs: the setting, or the option of `workers run`.
SETTING = "gpu_groups"
OPTION = "--gpus"
#: How many GPUs an engine uses, for messages.
PRODUCT = " x ".join(PARALLEL_SIZES)
#: What to do instead of naming GPUs there.
INSTEAD = {SETTING: "use gpu_groups: auto", OPTION: "leave --gpus out to run on the CPU"}
#: Why several make no group.
ONE_INSTANCE = "CUDA shows a process one MIG instance"


@dataclass(frozen=True, slots=True)
class Device:
    """A GPU or MIG instance that a worker can be pinned to."""

    #: Its number, or the UUID of a MIG instance: the value for CUDA_VISIBLE_DEVICES.
    name: str
    uuid: str = ""
    #: For a MIG instance: the number of its GPU.
    part_of: str = ""

    @property
    def is_instance(self) -> bool:
        """Whether it is a MIG instance, of which CUDA shows a process one at most."""
        return self.name.startswith("MIG-")

    def is_called(self, word: str) -> bool:
        """Whether `word` names this device."""
        return word == self.name or (len(word) > len("GPU-") and bool(self.uuid) and self.uuid.startswith(word))


def names_in(chosen: str) -> list[str]:
    """Return the names of the GPUs in `chosen`, a value of CUDA_VISIBLE_DEVICES.

    Like CUDA, this stops at the first word that cannot name a GPU, such as -1, or `NoDevFiles` in a Slurm job without
    GPUs.
    """
    return list(takewhile(_may_be_gpu, map(str.strip, chosen.split(","))))


def _may_be_gpu(word: str) -> bool:
    return word.isdecimal() or word.startswith(("GPU-", "MIG-"))


def find(word: str, visible: Sequence[Device], option: str = SETTING) -> Device:
    """Return the device that `word` names. Raises PlanError, about `option`, if there is none, or more than one."""
    meant = [device for device in visible if device.is_called(word)]
    if len(meant) == 1:
        return meant[0]
    names = ", ".join(device.name for device in visible)
    if meant:
        raise PlanError(f"{option}: {word!r} matches {len(meant)} UUIDs.", hint="Use a longer prefix.")
    parts = [device.name for device in visible if device.part_of == word]
    if parts:
        raise PlanError(f"{option} asks for GPU {word}, which is split into {', '.join(parts)}.", hint="Name those.")
    raise PlanError(
        f"{option} asks for GPU {word}; {f'{len(visible)} visible: {names}' if visible else 'none is visible'}.",
        hint=f"Check nvidia-smi -L and CUDA_VISIBLE_DEVICES, or {INSTEAD[option]}.",
    )


def named_groups(
    wanted: Sequence[Sequence[int | str]], visible: Sequence[Device], size: int, option: str = SETTING
) -> list[tuple[Device, ...]]:
    """Return the devices that each group of `wanted` names.

    Raises PlanError if no device has a name, which `option` gave, or if no engine of `size` GPUs can use a group.
    """
    return _fitting([tuple(find(str(word), visible, option) for word in group) for group in wanted], size)


def groups_as_written(wanted: Sequence[Sequence[int | str]], size: int) -> list[tuple[Device, ...]]:
    """Return the groups in `wanted` by the names in their file: whether these GPUs are visible is not looked up.

    Raises PlanError for a group that no engine of `size` GPUs can use.
    """
    return _fitting([tuple(Device(str(word)) for word in group) for group in wanted], size)


def _fitting(groups: list[tuple[Device, ...]], size: int) -> list[tuple[Device, ...]]:
    """Return `groups`. Raises PlanError if one has a GPU twice, not `size` GPUs, or several MIG instances."""
    for group in groups:
        names = ", ".join(device.name for device in group)
        if len(set(group)) < len(group):
            raise PlanError(f"Group [{names}] has a GPU twice.", hint="List each GPU once.")
        if len(group) != size:
            raise PlanError(
                f"Group [{names}] has {number(len(group), 'GPU')}, but the engine uses {PRODUCT} = {size}.",
                hint="Make the two numbers equal.",
            )
        if len(group) > 1 and any(device.is_instance for device in group):
            raise PlanError(f"Group [{names}]: {ONE_INSTANCE}, not {len(group)}.", hint="List one.")
    return groups


def groups_of_all(free: Sequence[Device], size: int) -> list[tuple[Device, ...]]:
    """Divide `free` into groups of `size`, in order.

    A remainder is left out, and so are MIG instances unless `size` is 1. Raises PlanError if that leaves no group.
    """
    usable = [each for each in free if size == 1 or not each.is_instance]
    groups = [tuple(usable[i * size : (i + 1) * size]) for i in range(len(usable) // size)]
    if not groups:
        instances = f"; {ONE_INSTANCE}, not {size}" if len(usable) < len(free) else ""
        raise PlanError(
            f"The engine uses {number(size, 'GPU')} per worker ({PRODUCT}); "
            f"{len(usable)} visible and not in another group{instances}.",
            hint="Lower one of these in vllm_args." if size > 1 else "Leave it one in the groups of other models.",
        )
    return groups


def shared_devices(groups: Sequence[Sequence[Device]]) -> list[Device]:
    """Return the devices in more than one group."""
    return [device for device, count in Counter(device for group in groups for device in group).items() if count > 1]


def group_name(group: Sequence[Device]) -> str:
    """Return the name of a worker on `group`, with the first 8 digits of UUIDs.

    >>> group_name([Device("2"), Device("3")])
    'gpu2-3'
    """
    return "gpu" + "-".join(device.name.removeprefix("MIG-").removeprefix("GPU-")[:8] for device in group)
