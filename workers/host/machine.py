"""What a machine has for its workers."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from workers.cpu_quota import cores_by_quota
from workers.gpus.groups import Device
from workers.gpus.nvidia import visible_gpus

__all__ = ["Machine", "by_physical_core", "this_machine"]


@dataclass(frozen=True, slots=True)
class Machine:
    """What a machine has for its workers."""

    gpus: Sequence[Device]
    #: Numbers of the cores that its workers may run on, the hardware threads of a physical core one after the other.
    cores: Sequence[int]
    #: How many of them a CPU quota leaves; None: all.
    quota: int | None = None

    @property
    def usable_cores(self) -> int:
        """How many cores its workers can keep busy: all of them, or as many as a CPU quota leaves."""
        return self.quota or len(self.cores)


def this_machine() -> Machine:
    """Return what this process may use of its machine."""
    return Machine(visible_gpus(), by_physical_core(os.sched_getaffinity(0)), cores_by_quota())


def by_physical_core(numbers: Iterable[int], root: Path = Path("/")) -> list[int]:
    """Return the cores so ordered that parts of the list share as few physical cores as they can.

    Linux often numbers the second threads of all cores after the first ones: of 8 cores in two halves by number, both
    halves would compute on the same 4. `root` is the folder with `sys`.
    """
    return sorted(numbers, key=lambda number: (_first_thread(number, root), number))


def _first_thread(number: int, root: Path) -> int:
    """Return the lowest number among the hardware threads of the same physical core; `number` where Linux tells none.

    "0,32" and "0-1" are two threads: Linux, Documentation/ABI/stable/sysfs-devices-system-cpu.
    """
    try:
        siblings = (root / f"sys/devices/system/cpu/cpu{number}/topology/thread_siblings_list").read_text()
    except OSError:
        return number
    return min((int(each) for each in re.findall(r"\d+", siblings)), default=number)
