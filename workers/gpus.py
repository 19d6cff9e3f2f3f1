"""Which worker gets which GPUs: a pure plan, or an error with the arithmetic. Nothing here starts anything."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from contract.errors import PlanError

__all__ = ["Group", "plan_groups", "visible_gpus"]


@dataclass(frozen=True, slots=True)
class Group:
    """One worker's place: its GPUs, or its share of the CPU."""

    name: str
    #: As CUDA_VISIBLE_DEVICES has them; empty for a CPU worker.
    gpus: tuple[str, ...]
    cpu_threads: int | None = None
    #: The queue it serves; empty: the one of the settings' model.
    queue: str = ""

    def environment(self) -> dict[str, str]:
        """Variables that must be set before the worker's Python starts."""
        variables = {"CUDA_VISIBLE_DEVICES": ",".join(self.gpus)}
        if self.cpu_threads is not None:
            variables["OMP_NUM_THREADS"] = str(self.cpu_threads)
        return variables


def plan_groups(
    wanted: Literal["auto"] | Sequence[Sequence[int | str]],
    visible: Sequence[str],
    *,
    gpus_per_worker: int = 1,
    cpu_workers: int = 1,
    cpu_cores: int = 1,
) -> tuple[Group, ...]:
    """One group per worker.

    `auto` cuts the visible GPUs into groups of `gpus_per_worker` (tensor × pipeline parallel size), or, where there
    is none, makes `cpu_workers` of equal share. Raises PlanError if a wanted GPU is not there, is in two groups, or
    a group's size is not what the engine will use.
    """
    if wanted == "auto":
        return _auto(visible, gpus_per_worker, cpu_workers, cpu_cores)
    groups = [tuple(str(gpu) for gpu in group) for group in wanted]
    flat = [gpu for group in groups for gpu in group]
    missing = [gpu for gpu in flat if gpu not in visible]
    if missing:
        there = f"{len(visible)} visible: {', '.join(visible)}" if visible else "none is visible"
        raise PlanError(
            f"gpu_groups asks for GPU {', '.join(missing)}; {there}.",
            hint="Check nvidia-smi -L and CUDA_VISIBLE_DEVICES, or use gpu_groups: auto.",
        )
    twice = sorted({gpu for gpu in flat if flat.count(gpu) > 1})
    if twice:
        raise PlanError(f"gpu_groups puts GPU {', '.join(twice)} into two groups.", hint="Give each group its own.")
    for group in groups:
        if len(group) != gpus_per_worker:
            raise PlanError(
                f"Group [{', '.join(group)}] has {len(group)} GPUs, but the engine uses "
                f"tensor_parallel_size x pipeline_parallel_size = {gpus_per_worker}.",
                hint="Make both the same.",
            )
    return tuple(Group(f"gpu{'-'.join(group)}", group) for group in groups)


def _auto(visible: Sequence[str], gpus_per_worker: int, cpu_workers: int, cpu_cores: int) -> tuple[Group, ...]:
    if not visible:
        share = max(1, cpu_cores // cpu_workers)
        return tuple(Group(f"cpu{i}", (), cpu_threads=share) for i in range(cpu_workers))
    count = len(visible) // gpus_per_worker
    if count == 0:
        raise PlanError(
            f"The engine uses {gpus_per_worker} GPUs per worker; {len(visible)} visible.",
            hint="Lower vllm_args.tensor_parallel_size.",
        )
    cut = (tuple(visible[i * gpus_per_worker : (i + 1) * gpus_per_worker]) for i in range(count))
    return tuple(Group(f"gpu{'-'.join(group)}", group) for group in cut)


def visible_gpus(environ: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """GPUs that this process may use: CUDA_VISIBLE_DEVICES if it is set, else all that the driver knows."""
    environ = os.environ if environ is None else environ
    chosen = environ.get("CUDA_VISIBLE_DEVICES")
    if chosen is not None:
        return tuple(each.strip() for each in chosen.split(",") if each.strip() not in {"", "-1"})
    return tuple(str(i) for i in range(_driver_count()))


def _driver_count() -> int:
    import pynvml

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return 0
    try:
        return int(pynvml.nvmlDeviceGetCount())
    finally:
        pynvml.nvmlShutdown()
