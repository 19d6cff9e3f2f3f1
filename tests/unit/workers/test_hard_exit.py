"""The exit that nothing may hold up."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support import PATIENCE_S, ROOT

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
