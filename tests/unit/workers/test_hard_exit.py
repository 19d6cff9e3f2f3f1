"""The exit that nothing may hold up."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import PATIENCE_S, ROOT, wait_until

#: What may go wrong on the way out.
TROUBLES = {
    "the children cannot be listed": "psutil.Process.children = refuse(psutil.AccessDenied())",
    "the disk is full": "sys.stdout = type('Full', (), {'flush': refuse(OSError(28, 'no space'))})()",
    "a closed stream": "sys.stderr.close()",
    "a bug": "psutil.Process.children = refuse(ZeroDivisionError())",
}
PROGRAM = """
import sys, threading, psutil
from workers.hard_exit import end_at_once
def refuse(trouble):
    def refused(*_, **__):
        raise trouble
    return refused
{trouble}
threading.Thread(target=end_at_once, args=(75,)).start()
threading.Event().wait()  # as a hung engine
"""


@pytest.mark.parametrize("trouble", TROUBLES)
def test_a_hung_worker_ends_whatever_goes_wrong_on_its_way_out(trouble: str) -> None:
    program = PROGRAM.format(trouble=TROUBLES[trouble])
    ended = subprocess.run([sys.executable, "-c", program], cwd=ROOT, timeout=PATIENCE_S, check=False)
    assert ended.returncode == 75


#: Shares memory, as vLLM's ranks do, waits for its tracker to be one, prints the memory's name, and sleeps.
SHARE = """
import sys, time, psutil
from multiprocessing.shared_memory import SharedMemory
held = SharedMemory(create=True, size=16)
while not any("resource_tracker" in " ".join(each.cmdline()) for each in psutil.Process().children()):
    time.sleep(0.01)
print(held.name, flush=True)
time.sleep(600)
"""
#: Ends at once, once its child has shared memory.
SHARING = f"""
import subprocess, sys
from workers.hard_exit import end_at_once
child = subprocess.Popen([sys.executable, "-c", {SHARE!r}], stdout=subprocess.PIPE, text=True)
print(child.stdout.readline(), end="", flush=True)
end_at_once(75)
"""


def test_memory_that_children_shared_is_free_after_such_an_end() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", SHARING], cwd=ROOT, stdout=subprocess.PIPE, text=True, timeout=PATIENCE_S, check=False
    )
    name = ended.stdout.strip()
    assert (ended.returncode, bool(name)) == (75, True)
    wait_until(lambda: not Path("/dev/shm", name).exists(), "the shared memory to be freed")
