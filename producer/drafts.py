"""What the commands share that replace files or folders: names for drafts beside them, and a lock on their folder."""

from __future__ import annotations

import fcntl
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

__all__ = ["alone_in", "hidden_beside", "leftovers"]


def hidden_beside(path: Path, ending: str = "") -> Path:
    """Return a hidden name next to `path` that nobody else has: in containers, all processes may have the same id."""
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}{ending}")


def leftovers(path: Path, ending: str = "") -> list[Path]:
    """Return what has a name that `hidden_beside` gave it; nothing if the folder cannot be read."""
    ours = re.compile(rf"\.{re.escape(path.name)}\.[0-9a-f]{{8}}{re.escape(ending)}")
    try:
        return [each for each in path.parent.iterdir() if ours.fullmatch(each.name)]
    except OSError:
        return []


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
