"""A child process that does not outlive its parent, whatever ends the parent."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Callable

from contract.errors import EXIT_RETRY

__all__ = ["follower"]

#: prctl(2): the signal that the kernel sends when the thread that forked ends.
PR_SET_PDEATHSIG = 1


def follower() -> Callable[[], None]:
    """A `preexec_fn` for a child that gets SIGTERM when this process dies. Call it, and fork, in the main thread.

    Only Linux has such a signal; elsewhere it does nothing.
    """
    parent = os.getpid()
    # Loaded before the fork: between fork and exec a child of a process with threads must not wait for any lock.
    libc = ctypes.CDLL(None) if sys.platform == "linux" else None

    def follow() -> None:
        if libc is not None:
            libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
            if os.getppid() != parent:  # it died before that
                os._exit(EXIT_RETRY)  # no signal to ourselves: here the parent's own handlers would take it

    return follow
