"""The CPU quota of this process: how much time its container gets, however many cores it sees.

`docker --cpus` and limits in Kubernetes set it in a cgroup. The kernel still runs threads on all cores, but as soon as
they have used the quota of a period (100 ms), it stops all of them until the next one.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath

__all__ = ["cores_by_quota", "usable_cores"]


def cores_by_quota(root: Path = Path("/")) -> int | None:
    """Return how many cores a CPU quota leaves to this process, rounded up; None if all that it is bound to.

    The smallest quota of its cgroups and their ancestors counts. A file that is missing, unreadable or malformed sets
    none. `root` is the folder with `proc` and `sys`.
    """
    cores = math.ceil(usable_cores(root))
    return cores if cores < len(os.sched_getaffinity(0)) else None


def usable_cores(root: Path = Path("/")) -> float:
    """Return how many cores this process may use: those that it is bound to, or the part that a CPU quota leaves."""
    return min([len(os.sched_getaffinity(0)), *_quotas(root)])


def _quotas(root: Path) -> Iterator[float]:
    """Yield every quota found, in cores."""
    mounted = root / "sys/fs/cgroup"
    for controllers, folder in _cgroups(root / "proc/self/cgroup"):
        with suppress(OSError, ValueError, ZeroDivisionError):
            if not controllers:  # version 2
                quota, period = (mounted / folder / "cpu.max").read_text().split()
            elif "cpu" in controllers.split(","):
                at = mounted / "cpu" / folder
                quota, period = ((at / f"cpu.cfs_{name}_us").read_text() for name in ("quota", "period"))
            else:
                continue
            if (cores := int(quota) / int(period)) > 0:  # "max" or -1: none
                yield cores


def _cgroups(listing: Path) -> Iterator[tuple[str, str]]:
    """Yield controllers and folder of this process' cgroups and their ancestors, the folder below where it is mounted.

    A container may be shown its host's paths, which do not exist in it; its own cgroup is then mounted as the root,
    the last ancestor.
    """
    with suppress(OSError, ValueError):
        for line in listing.read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            for each in (own := PurePosixPath(path), *own.parents):
                yield controllers, str(each).lstrip("/")
