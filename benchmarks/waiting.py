"""Waiting for conditions, with time limits."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence

import psutil

__all__ = ["lives", "wait_gone", "wait_until"]


def wait_gone(processes: Sequence[psutil.Process], timeout_s: float) -> None:
    """Return once all of `processes` have ended. Raises AssertionError with those that have not."""
    with contextlib.suppress(TimeoutError):
        wait_until(lambda: not any(map(lives, processes)), timeout_s)
    if left := [each for each in processes if lives(each)]:
        raise AssertionError(f"left behind: {left}")


def lives(process: psutil.Process) -> bool:
    """Return whether the process runs; a zombie, which has ended but was not waited for, does not."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    return False


def wait_until(condition: Callable[[], bool], timeout_s: float) -> None:
    """Return as soon as `condition` holds. Raises TimeoutError."""
    until = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > until:
            raise TimeoutError(f"waited {timeout_s:g} s")
        time.sleep(0.02)
