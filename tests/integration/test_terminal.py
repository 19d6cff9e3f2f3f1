"""`workers up` on a terminal that is closed, or that nobody reads."""

from __future__ import annotations

import fcntl
import os
import pty
import signal
import socket
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from celery import Celery

from benchmarks.stand import set_words
from contract import RedisLedger
from tests.integration.launching import attempts, begun
from tests.integration.runs import sent
from tests.support import (
    PATIENCE_S,
    ROOT,
    SIMULATED_MODEL,
    booted_pids,
    end,
    wait_until,
)


def in_terminal(terminal: int) -> None:
    """Make it this process' own, which hears when it is gone: not if the tests run under nohup, which is inherited."""
    fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


@contextmanager
def on_terminal(*words: str) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """A Python with a terminal of its own, and the descriptor at which that is read, or closed."""
    ours, its = pty.openpty()
    with subprocess.Popen(
        [sys.executable, *words],
        cwd=ROOT,
        env={**os.environ, "TERM": "xterm"},  # where a table is drawn
        stdin=its,
        stdout=its,
        stderr=its,
        start_new_session=True,
        preexec_fn=partial(in_terminal, its),
    ) as launcher:
        try:
            os.close(its)
            yield launcher, ours
        finally:
            end(launcher)


def test_a_terminal_that_is_gone_has_the_workers_drained_and_the_reason_told_in_a_file(
    app: Celery, redis_ledger: RedisLedger, tmp_path: Path
) -> None:
    chosen = ["engine=simulated", f"model={SIMULATED_MODEL}", "batch_size=8", "simulated.call_ms=3000"]
    command = ["-m", "workers", "up", *set_words(chosen), "--logs", str(tmp_path)]
    with on_terminal(*command) as (launcher, terminal):
        log = tmp_path / "cpu0.log"
        wait_until(lambda: log.exists() and "ready: takes" in log.read_text(), "the worker to be ready")
        run = sent(app, redis_ledger, 8)
        wait_until(lambda: begun(redis_ledger, run), "the call to begin")
        os.close(terminal)
        said = tmp_path / "up.log"
        wait_until(lambda: said.exists() and "draining 1 worker " in said.read_text(), "the launcher to notice")
        launcher.send_signal(signal.SIGHUP)  # shells tell their jobs, and the kernel tells them again
        assert launcher.wait(timeout=PATIENCE_S) == 0
    assert (
        "the terminal was closed (SIGHUP); in tmux, with nohup or as a systemd unit, workers would go on"
        in said.read_text()
    )
    assert said.read_text().endswith(": stopped\n"), "and how it ended"
    assert "\x1b" not in said.read_text(), "nor is a table drawn into the file"
    assert attempts(redis_ledger, run) == [1] * 8, "the batch in flight was ended, not asked again"


CTRL_S, CTRL_Q = b"\x13", b"\x11"


def shown_until(words: str, terminal: int) -> str:
    """What is shown at that terminal until `words` are."""
    shown = ""
    while words not in shown:
        shown += os.read(terminal, 4096).decode()
    return shown


def test_a_terminal_that_nobody_reads_keeps_no_worker_from_being_restarted_and_is_told_later(
    redis_ledger: RedisLedger, tmp_path: Path
) -> None:
    command = ["-m", "workers", "up", "--set", "engine=simulated", "--set", f"model={SIMULATED_MODEL}"]
    with on_terminal(*command, "--logs", str(tmp_path)) as (launcher, terminal):
        (pid,) = booted_pids(shown_until(f"cpu0@{socket.gethostname()}: ready after", terminal))
        os.write(terminal, CTRL_S)
        os.kill(pid, signal.SIGKILL)
        log = tmp_path / "cpu0.log"
        wait_until(lambda: log.read_text().count("ready: takes") == 2, "the next one to be ready")
        os.write(terminal, CTRL_Q)
        assert "ended with signal SIGKILL" in shown_until("restarting in 1 s", terminal)
        os.write(terminal, CTRL_S)
        launcher.terminate()
        assert launcher.wait(timeout=PATIENCE_S) == 0, "nor does it wait for its last words to be read"
