"""What a worker tells its launcher, through a pipe: that it is ready, or why it will not be. One line, once."""

from __future__ import annotations

import os
from contextlib import suppress

__all__ = ["READY", "VARIABLE", "hear", "is_launched", "tell"]

#: Names the worker's end in its environment.
VARIABLE = "MCQUEUE_READY_FD"
READY = "ready"
#: Written at once, and read at once.
LONGEST_BYTES = 4096


def is_launched() -> bool:
    """Whether a launcher looks after this process and starts it again."""
    return VARIABLE in os.environ


def tell(line: str) -> None:
    """READY, or why not. Nobody hears it where no launcher is, or no longer."""
    if is_launched():
        with suppress(OSError):
            os.write(int(os.environ[VARIABLE]), line.encode()[:LONGEST_BYTES])


def hear(reader: int) -> str:
    """What the worker told; empty where it has not, or ended without a word."""
    with suppress(BlockingIOError):
        return os.read(reader, LONGEST_BYTES).decode(errors="replace").strip()
    return ""
