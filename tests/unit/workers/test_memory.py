"""Memory that an engine frees and soon wants again."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

MEASURE = """
import resource, sys, threading
from workers.engines.memory import keep_freed_memory

if sys.argv[1] == "kept":
    assert keep_freed_memory()

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

def use(megabytes):
    held = [bytearray(b"x") * (each * 2**20) for each in (megabytes, megabytes)]
    del held

def work():
    use(16)
    before = faults()
    for _ in range(5):
        use(16)
    print(faults() - before)

thread = threading.Thread(target=work)
thread.start()
thread.join()
"""
PAGES_OF_16_MIB = 16 * 2**20 // 4096


def page_faults(how: str) -> int:
    """Of a thread that takes and gives back twice 16 MiB, five times."""
    found = subprocess.run([sys.executable, "-c", MEASURE, how], capture_output=True, text=True, check=True, timeout=60)
    return int(found.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="a setting of the GNU C library")
def test_memory_that_a_thread_freed_is_not_mapped_again_at_its_next_use() -> None:
    assert page_faults("kept") < PAGES_OF_16_MIB / 10
    assert page_faults("left as it is") > PAGES_OF_16_MIB
