"""Timer slack for polling threads: they wake up later and less often, as each wake-up takes a core from the model."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["rare_wakeups"]

# prctl(2): nanoseconds by which the kernel may delay the end of a thread's timed waits. New threads inherit it.
PR_SET_TIMERSLACK = 29
PR_GET_TIMERSLACK = 30
SLACK_NS = 100_000_000


@contextmanager
def rare_wakeups() -> Iterator[None]:
    """Allow threads started by this thread within the block to sleep up to 0.1 s longer than they request.

    Meant for an engine in this process: vLLM creates a dozen process groups even for a single process, and each has a
    gloo thread that polls a hundred times a second for messages that nobody sends. Each poll takes a core from the
    model for a moment, and since all cores wait for the slowest one at every layer, it delays all of them. A message
    would still wake such a thread at once. Has no effect on systems other than Linux.
    """
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is None:
        yield
        return
    before_ns = prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0)
    prctl(PR_SET_TIMERSLACK, ctypes.c_ulong(SLACK_NS), 0, 0, 0)
    try:
        yield
    finally:
        prctl(PR_SET_TIMERSLACK, ctypes.c_ulong(before_ns), 0, 0, 0)
