"""A lock on a folder, for commands that replace files or folders in it."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

__all__ = ["alone_in"]


@contextmanager
def alone_in(folder: Path) -> Iterator[bool]:
    """Ensure that only one process at a time renames what is in `folder`; yield False if that cannot be ensured."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:  # a folder that is writable but not readable
        yield False
        return
    alone = False
    try:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            alone = True
        yield alone
    finally:
        os.close(descriptor)
