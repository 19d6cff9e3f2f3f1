"""The documentation's `console` blocks, run in their order, with the simulated engine."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs import DOCS, blocks
from tests.support import ROOT, SIMULATED_MODEL, processes_of_session, wait_until


@pytest.mark.parametrize("page", [page for page in DOCS if blocks(page, "console")], ids=lambda page: page.stem)
def test_the_commands_of_a_page_work_in_their_order(page: Path, redis_url: str, tmp_path: Path) -> None:
    for name in ("configs", "demo"):
        (tmp_path / name).symlink_to(ROOT / name)
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "MCQUEUE_REDIS_URL": redis_url,
        "MCQUEUE_ENGINE": "simulated",
        "MCQUEUE_MODEL": SIMULATED_MODEL,
    }
    script = "\n".join(["set -euo pipefail", *blocks(page, "console")])
    script = re.sub(r"(?m)^(python -m workers up .*)$", r"\1 &", script)  # a reader has it in a terminal of its own
    log = tmp_path / "log"
    with log.open("wb") as output:
        shell = subprocess.Popen(
            ["bash", "-x", "-c", script],
            cwd=tmp_path,
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        assert shell.wait(timeout=600) == 0, log.read_text()
    finally:
        end_session(shell)


def end_session(shell: subprocess.Popen[bytes]) -> None:
    """End what the page started in the background as Ctrl-C would, and the hard way what stays."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(shell.pid, signal.SIGTERM)
    try:
        wait_until(lambda: not processes_of_session(shell.pid), "the page's processes to end")
    finally:
        for each in processes_of_session(shell.pid):
            each.kill()
        shell.wait()
