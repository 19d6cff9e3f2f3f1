"""Memory that an engine frees and soon wants again."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

from workers.engines.installed import is_cpu_build

MEASURE = """
import resource, sys, threading
from contract import load_settings
from workers.engines.malloc import keep_freed_memory
from workers.engines.vllm import VllmEngine

if sys.argv[1] == "kept":
    keep_freed_memory()
if sys.argv[1] == "an engine was made":
    VllmEngine(load_settings())
threading.Thread(target=list).start()  # as a worker begins some before its engine's

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
    command = [sys.executable, "-c", MEASURE, how]
    found = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    return int(found.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="a setting of the GNU C library")
def test_memory_that_a_thread_freed_is_not_mapped_again_at_its_next_use() -> None:
    assert page_faults("kept") < PAGES_OF_16_MIB / 10
    assert page_faults("left as it is") > PAGES_OF_16_MIB


@pytest.mark.skipif(not is_cpu_build(), reason="vLLM for a GPU computes in a process of its own")
def test_an_engine_for_cpus_keeps_the_memory_of_threads_that_begin_before_it_starts() -> None:
    assert page_faults("an engine was made") < PAGES_OF_16_MIB / 10
