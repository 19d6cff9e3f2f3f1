"""Unique process names, and whether the process of such a name has ended."""

from __future__ import annotations

import contextlib
import os
import socket
from pathlib import Path

import psutil

__all__ = ["boot_id", "died_here", "process_name", "process_place", "process_start", "this_process"]


def this_process() -> str:
    """Return the name of this process."""
    return process_name(process_place(), os.getpid(), process_start(os.getpid()) or 0)


def process_name(place: str, pid: int, started: int) -> str:
    """Return a unique name of the process that started then, by `process_start`, with this id in this place."""
    return f"{place}/{pid}/{started}"


def died_here(process: str) -> bool:
    """Whether the process of that name ran in this process namespace and has ended."""
    place, _, rest = process.partition(f"{process_place()}/")
    pid, _, started = rest.partition("/")
    if place or not pid.isdigit():
        return False
    if (found := process_start(int(pid))) is None:
        return not _is_hidden(int(pid))
    return str(found) != started


def process_place() -> str:
    """Return the scope in which process ids are valid: host, boot and process namespace."""
    parts = [socket.gethostname()]
    with contextlib.suppress(OSError):
        parts += [boot_id(), str(Path("/proc/self/ns/pid").readlink())]
    return "/".join(parts)


def boot_id() -> str:
    """Return the kernel's name for its current boot, the same in all containers. Raises OSError except on Linux."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def process_start(pid: int) -> int | None:
    """Return when process `pid` started, in ticks independent of clock changes; None if ended, a zombie, or hidden."""
    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return None
        stat = Path(f"/proc/{pid}/stat")
        if stat.exists():
            return int(stat.read_bytes().rpartition(b")")[2].split()[19])  # field 22 of proc(5), `starttime`
        return int(process.create_time())
    except (psutil.Error, OSError, IndexError):
        return None


def _is_hidden(pid: int) -> bool:
    """Whether another user runs process `pid`, of which `hidepid` of proc(5) may hide everything else."""
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except OSError:
        return False
    return False
