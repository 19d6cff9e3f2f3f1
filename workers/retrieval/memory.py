"""Memory checks for index builds: fail early with a message, before the system kills the process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil

from contract.errors import InputError

__all__ = ["require_memory", "used_bytes"]

#: Memory limit and use of a container (cgroup v2); `memory.max` is `max` without a limit.
CGROUP = Path("/sys/fs/cgroup")


def available_bytes() -> int:
    """Return the memory that this process can still allocate, within the machine's and the container's limits."""
    return min([int(psutil.virtual_memory().available), *_left_in_container()])


def _left_in_container() -> Iterator[int]:
    with suppress(OSError, ValueError, KeyError):
        stat = dict(line.split() for line in (CGROUP / "memory.stat").read_text().splitlines())
        # Without what the kernel takes back first.
        taken = int((CGROUP / "memory.current").read_text()) - int(stat["inactive_file"])
        yield int((CGROUP / "memory.max").read_text()) - taken


def used_bytes() -> int:
    """Return the memory used by this process, without mapped files."""
    found = psutil.Process().memory_info()
    return int(found.rss - found.shared)


def require_memory(more_bytes: float, what: str) -> None:
    """Raise InputError if `what` needs `more_bytes` in addition to the memory in use, and less is available."""
    available = available_bytes()
    if more_bytes > available:
        raise InputError(
            f"{what} need about {more_bytes / 1e9:.1f} GB more memory, but {available / 1e9:.1f} GB are available.",
            hint="Build on a machine with more memory, or build several indexes over parts of the corpus; "
            "docs/retrieval.md lists the memory per passage.",
        )
