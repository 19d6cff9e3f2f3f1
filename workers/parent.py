"""Child processes that die with their parent, however it ends. Only possible on Linux.

Code that starts a child passes `follower()`; a child that multiprocessing started calls `follow_parent()`.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable

from contract.errors import EXIT_RETRY

__all__ = ["follow_parent", "follower"]

#: prctl(2): the signal that the kernel sends when the thread that forked ends.
PR_SET_PDEATHSIG = 1


def follower(number: signal.Signals = signal.SIGTERM) -> Callable[[], None]:
    """Return a `preexec_fn` for a child that gets signal `number` when this process dies.

    Call it, and fork, in the main thread.
    """
    parent = os.getpid()
    # Loaded before the fork: between fork and exec, the child of a multithreaded process must not take any lock.
    libc = _libc()

    def follow() -> None:
        if libc is not None:
            libc.prctl(PR_SET_PDEATHSIG, number)
            if os.getppid() != parent:  # it died before prctl
                os._exit(EXIT_RETRY)  # not by a signal: the handlers inherited from the parent would catch it

    return follow


def follow_parent() -> None:
    """Die with the thread that started this process by multiprocessing, if it was started so."""
    parent, libc = multiprocessing.parent_process(), _libc()
    if parent is None or libc is None:
        return
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if not parent.is_alive():  # it died before prctl
        os._exit(EXIT_RETRY)


def _libc() -> ctypes.CDLL | None:
    return ctypes.CDLL(None) if sys.platform == "linux" else None
