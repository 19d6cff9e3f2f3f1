"""Memory that an engine in this process has freed, and that the C library is told to keep."""

from __future__ import annotations

import ctypes

__all__ = ["keep_freed_memory"]

# malloc.h of the GNU C library; mallopt(3) says what each is for.
M_TRIM_THRESHOLD = -1
M_MMAP_THRESHOLD = -3
M_ARENA_MAX = -8
#: The most that M_MMAP_THRESHOLD takes on 64 bits.
LARGEST_KEPT_BYTES = 32 * 2**20
NEVER = 2**31 - 1


def keep_freed_memory() -> bool:
    """Have this process keep what it frees, and its threads share it. False where the C library is not GNU's.

    Every layer of a model allocates its activations anew, some megabytes each. Given back to the system in between,
    they are mapped and zeroed page by page at the next use: 100,000 page faults for 160 short prompts on a CPU.
    Threads that begin afterwards allocate from the main heap; their own would be given back whatever is set here. So
    this is for a process that has no threads yet: once one has a heap of its own, others share it in their turn.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    asked = {M_MMAP_THRESHOLD: LARGEST_KEPT_BYTES, M_TRIM_THRESHOLD: NEVER, M_ARENA_MAX: 1}
    return [mallopt(name, value) for name, value in asked.items()] == [1] * len(asked)
