"""A worker process of the launcher. It leads its own process group, so that all it started can be killed with it."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Literal

from workers.host.placement import WorkerPlan
from workers.host.restarts import Failures

__all__ = ["Child"]

#: How long processes that a dead worker started may take to end: Python's resource trackers free shared memory.
TIDY_S = 1.0
#: Added to `server_startup_timeout`, within which most engines give up by themselves.
LATE_S = 30.0
TAIL_LINES = 20
STDERR_DESCRIPTOR = 2
#: A line that may name the cause: vLLM's core process logs it above its tracebacks and scheduler state.
ERROR = re.compile(r"[\w.]*(?:Error|Exception): .+")
ERRORS = 5
LOOK_BACK_BYTES = 200_000


@dataclass
class Child:
    """A worker process and the launcher's state about it."""

    plan: WorkerPlan
    #: None: it writes to its launcher's stderr.
    log_path: Path | None
    #: Offset of this boot in the log, after what earlier ones and other launchers wrote.
    log_begins: int = 0
    process: subprocess.Popen[bytes] | None = None
    #: The launcher's end of its boot pipe; -1: closed.
    boot_reader: int = -1
    #: When it became ready and was started, by the monotonic clock.
    ready_at: float | None = None
    started_at: float = 0.0
    failures: Failures = field(default_factory=Failures)
    #: Whether its engine has booted. What it may still wait for is Redis, however long that is away.
    booted: bool = False
    #: Whether it was killed because its boot took too long.
    overdue: bool = False
    #: Whether it was ready in any boot.
    proven: bool = False
    #: The error it reported for its last boot, if that failed.
    trouble: str = ""
    #: When to start it, by the monotonic clock; None: never, or it is running.
    start_at: float | None = None
    boots: int = 0
    state: Literal["waiting", "booting", "ready", "draining", "stopped", "killed", "given up"] = "waiting"

    def is_overdue(self, now: float) -> bool:
        """Whether its boot counts as hung by now (monotonic clock)."""
        boots = self.state == "booting" and not self.booted and not self.overdue
        return boots and now > self.started_at + self.plan.startup_timeout_s + LATE_S

    @contextlib.contextmanager
    def log(self) -> Iterator[IO[bytes] | int]:
        """Yield its log for a process to write to, and remember where that begins."""
        if self.log_path is None:
            yield STDERR_DESCRIPTOR
            return
        with self.log_path.open("ab") as output:
            self.log_begins = output.tell()
            yield output

    def last_words(self) -> str:
        """Return the end of its log, to show why it died, preceded by the last errors from further up."""
        return f"its last lines:\n{self._last_lines(self.log_path)}" if self.log_path else "its last lines are above"

    def _last_lines(self, path: Path) -> str:
        try:
            with path.open("rb") as log_file:
                size = log_file.seek(0, os.SEEK_END)
                begins = self.log_begins if self.log_begins <= size else 0  # it was emptied, as by logrotate
                log_file.seek(max(begins, size - LOOK_BACK_BYTES))
                lines = log_file.read().decode(errors="replace").splitlines()
        except OSError:
            return ""
        tail = "\n".join(f"    {line}" for line in lines[-TAIL_LINES:])
        errors = dict.fromkeys(found[0] for line in reversed(lines[:-TAIL_LINES]) if (found := ERROR.search(line)))
        above = [f"    … {error}\n" for error in errors if error not in tail][:ERRORS]
        return "".join(reversed(above)) + tail

    def kill_rest(self) -> None:
        """Kill what is left of its process group once it has ended, after a moment to end by itself."""
        until = time.monotonic() + TIDY_S
        with contextlib.suppress(ProcessLookupError):  # nothing is left
            while self.process is not None and time.monotonic() < until:
                os.killpg(self.process.pid, 0)
                time.sleep(0.02)
            self.kill()

    def kill(self) -> None:
        """Kill it and all that it started."""
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
