"""Pipe by which a worker reports once, in one line, to its launcher: that it is ready, or why it failed to boot."""

from __future__ import annotations

import os
from contextlib import suppress

__all__ = ["READY", "VARIABLE", "is_launched", "read_report", "report"]

#: Environment variable with the worker's end of the pipe.
VARIABLE = "MCQUEUE_READY_FD"
READY = "ready"
#: Small enough to be written and read in one call.
LONGEST_BYTES = 4096


def is_launched() -> bool:
    """Whether a launcher supervises this process and restarts it."""
    return VARIABLE in os.environ


def report(line: str) -> None:
    """Report READY, or why the boot failed. Ignored if there is no launcher, or no longer."""
    if is_launched():
        with suppress(OSError):
            os.write(int(os.environ[VARIABLE]), line.encode()[:LONGEST_BYTES])


def read_report(reader: int) -> str:
    """Return the worker's report; empty if there is none, or it ended without one."""
    with suppress(BlockingIOError):
        return os.read(reader, LONGEST_BYTES).decode(errors="replace").strip()
    return ""
