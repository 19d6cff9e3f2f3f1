"""Whether a build fits into memory: told before it is used up, as the system would only end the process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil

from contract.errors import InputError

__all__ = ["available_bytes", "require_memory", "used_bytes"]

#: Limit and use of a container, by cgroup version 2; `memory.max` says `max` where there is none.
CGROUP = Path("/sys/fs/cgroup")


def available_bytes() -> int:
    """What this process may still take, of the machine and of its container."""
    return min([int(psutil.virtual_memory().available), *_left_in_container()])


def _left_in_container() -> Iterator[int]:
    with suppress(OSError, ValueError, KeyError):
        stat = dict(line.split() for line in (CGROUP / "memory.stat").read_text().splitlines())
        taken = int((CGROUP / "memory.current").read_text()) - int(stat["inactive_file"])  # which is given up first
        yield int((CGROUP / "memory.max").read_text()) - taken


def used_bytes() -> int:
    """What this process has taken, without the files that it has mapped."""
    found = psutil.Process().memory_info()
    return int(found.rss - found.shared)


def require_memory(more_bytes: float, what: str) -> None:
    """Raise InputError where `what` takes `more_bytes` more than this process has, and there is not so much."""
    available = available_bytes()
    if more_bytes > available:
        raise InputError(
            f"{what} take about {more_bytes / 1e9:.1f} GB more of memory, and {available / 1e9:.1f} GB are there.",
            hint="Build on a machine with more, or several indexes over parts of the corpus; docs/retrieval.md has "
            "what a passage takes.",
        )
