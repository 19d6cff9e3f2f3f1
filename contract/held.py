"""Locks on files and folders in use, by which others recognise what killed processes left behind."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

__all__ = ["abandoned", "hold"]


def hold(descriptor: int, path: Path) -> bool:
    """Lock what is open as `descriptor`, until it is closed; return False if `path` was removed or replaced meanwhile.

    On a file system without locks nothing is held, and nothing counts as abandoned either.
    """
    with suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


@contextmanager
def abandoned(path: Path, flags: int = os.O_RDONLY) -> Iterator[None]:
    """Hold `path` in the block, which may remove it. Raises OSError if a process holds it, or if it cannot be opened.

    A shared file system may lock only what is open with `flags` that allow writing.
    """
    descriptor = os.open(path, flags)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)
