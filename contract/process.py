"""Names of processes that are never given twice, and whether the process of such a name is gone."""

from __future__ import annotations

import contextlib
import os
import socket
from pathlib import Path

import psutil

__all__ = ["died_here", "process_place", "process_start", "this_process"]


def this_process() -> str:
    """A name that no other process has or will have: place, process id, and when it started."""
    return f"{process_place()}/{os.getpid()}/{process_start(os.getpid()) or 0}"


def died_here(process: str) -> bool:
    """Whether the process of that name ran where we can see it, and is gone."""
    place, _, rest = process.partition(f"{process_place()}/")
    pid, _, started = rest.partition("/")
    return not place and pid.isdigit() and str(process_start(int(pid))) != started


def process_place() -> str:
    """Where process ids are ours to look at: host, boot and process namespace."""
    parts = [socket.gethostname()]
    with contextlib.suppress(OSError):
        parts += [
            Path("/proc/sys/kernel/random/boot_id").read_text().strip(),
            str(Path("/proc/self/ns/pid").readlink()),
        ]
    return "/".join(parts)


def process_start(pid: int) -> int | None:
    """When process `pid` started, in ticks that no clock change touches; None if it is gone, zombies included."""
    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return None
        stat = Path(f"/proc/{pid}/stat")
        if stat.exists():
            return int(stat.read_text().rpartition(")")[2].split()[19])  # field 22 of proc(5), `starttime`
        return int(process.create_time())
    except (psutil.NoSuchProcess, OSError, IndexError):
        return None
