"""GPUs by the names that people give them, and how they are cut into groups: pure, or an error with the arithmetic.

A GPU is named by its number, as nvidia-smi has it, or by its UUID or the beginning of one (`GPU-5f3a…`); an instance of
one that is cut into several by its UUID (`MIG-…`) alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from contract.errors import PlanError

__all__ = ["Device", "cut", "cut_all", "find", "group_name", "shared", "words_of"]


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


def _refuse_several_instances(group: Sequence[Device]) -> None:
    if len(group) > 1 and any(device.part_of for device in group):
        names = ", ".join(device.name for device in group)
        raise PlanError(f"Group [{names}]: CUDA shows a process one MIG instance, not {len(group)}.", hint="One each.")
