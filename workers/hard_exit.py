"""Immediate exit of this process, for when an orderly exit would hang."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from typing import NoReturn

import psutil

__all__ = ["end_at_once"]

#: The program of a resource tracker: Python's own, or loky's.
TRACKER = re.compile(r"from [\w.]+\.resource_tracker import main")


def end_at_once(exit_code: int) -> NoReturn:
    """Kill this process and all its children immediately, from any thread.

    Nothing is released; other workers, here or elsewhere, will find a dead worker and requeue its messages. Whatever
    fails here, e.g. to list the children or to write to a full disk, the process ends.
    """
    try:
        _kill_children()
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
    finally:
        os._exit(exit_code)


def _kill_children() -> None:
    """Kill all but Python's resource trackers: they free the shared memory of the others once these have ended."""
    with contextlib.suppress(psutil.Error):
        for child in psutil.Process().children(recursive=True):
            with contextlib.suppress(psutil.Error):
                if not any(map(TRACKER.match, child.cmdline())):
                    child.kill()
