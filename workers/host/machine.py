"""What a machine has for its workers."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from workers.cpu_quota import cores_by_quota
from workers.gpus.groups import Device
from workers.gpus.nvidia import visible_gpus

__all__ = ["Machine", "this_machine"]


@dataclass(frozen=True, slots=True)
class Machine:
    """What a machine has for its workers."""

    gpus: Sequence[Device]
    #: Numbers of the cores that its workers may run on.
    cores: Sequence[int]
    #: How many of them a CPU quota leaves; None: all.
    quota: int | None = None

    @property
    def usable_cores(self) -> int:
        """Number of cores' worth of time."""
        return self.quota or len(self.cores)


def this_machine() -> Machine:
    """Return what this process may use of its machine."""
    return Machine(visible_gpus(), sorted(os.sched_getaffinity(0)), cores_by_quota())
