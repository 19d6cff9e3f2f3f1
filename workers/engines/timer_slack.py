"""Letting threads that poll wake up late, and so rarely: each wake-up takes a core from the model."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["rare_wakeups"]

# prctl(2): by how many nanoseconds the kernel may delay the end of a thread's timed waits. Its threads inherit it.
PR_SET_TIMERSLACK = 29
PR_GET_TIMERSLACK = 30
SLACK_NS = 100_000_000


@contextmanager
def rare_wakeups() -> Iterator[None]:
    """Threads that begin in here, started by this one, may sleep 0.1 s longer than they ask for, until something comes.

    For an engine in this process: vLLM makes a dozen groups of processes even where there is but one, and each has a
    thread of gloo that looks a hundred times a second for messages that nobody sends. Every look takes a core from the
    model for a moment, and as all cores wait for the last one at each of its layers, from all of them. A message would
    wake such a thread at once. Where the system is not Linux, nothing changes.
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
