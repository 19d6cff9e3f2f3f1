"""A worker that faults happen to: a process started like one by hand, with its own way to Redis."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil

from benchmarks.faults.proxy import Proxy
from contract import variables
from workers.host.launcher import worker_command
from workers.parent import follower

__all__ = ["OVERRIDES", "ROOT", "WorkerProcess"]

ROOT = Path(__file__).resolve().parents[2]
#: What every worker of the stage is told, so that a round takes a few seconds and every moment can be hit.
OVERRIDES: Mapping[str, object] = {
    "engine": "simulated",
    "model": "chaos",
    "batch_size": 8,
    "batch_timeout": 0.3,
    "max_attempts": 3,
    "simulated": {"call_ms": 100},
}


class WorkerProcess:
    """One worker of the stage, started like one by hand, with its own way to Redis."""

    def __init__(
        self,
        name: str,
        upstream: tuple[str, int],
        folder: Path,
        *,
        prefix: Sequence[str] = (),
        url: str = "",
        environment: Mapping[str, str] | None = None,
        **settings: object,
    ) -> None:
        """`prefix` is put before its command; `url` is its way to Redis instead of a proxy of its own."""
        self.name = f"{name}@chaos"
        self.proxy = Proxy(upstream)
        self.log = folder / f"{name}.log"
        self._prefix = prefix
        given = {"MCQUEUE_REDIS_URL": url or self.proxy.url, variables.OVERRIDES: json.dumps({**OVERRIDES, **settings})}
        self._environment = {**given, **(environment or {})}
        self.process = self._started()

    def start(self) -> None:
        """Start again, from the main thread; whatever is left of the life before ends first."""
        self.end()
        self.proxy.disarm()
        self.proxy.heal()
        self.process = self._started()

    def _started(self) -> subprocess.Popen[bytes]:
        follow = follower(signal.SIGKILL)  # else it would outlive a killed chaos

        def follow_and_hear_interrupts() -> None:
            follow()
            signal.signal(signal.SIGINT, signal.default_int_handler)

        self._log_start = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("ab") as output:
            return subprocess.Popen(
                [*self._prefix, *worker_command(self.name)],
                cwd=ROOT,
                env={**os.environ, **self._environment},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=follow_and_hear_interrupts,
            )

    def said(self) -> str:
        """Its log since the last start."""
        with self.log.open("rb") as file:
            file.seek(self._log_start)
            return file.read().decode(errors="replace")

    @property
    def ready(self) -> bool:
        """Whether it takes messages."""
        return self.process.poll() is None and "ready: takes question batches" in self.said()

    def offspring(self) -> list[psutil.Process]:
        """What it started: with vLLM, its engine's own process."""
        found: list[psutil.Process] = psutil.Process(self.process.pid).children(recursive=True)
        return found

    def kill(self) -> None:
        """Kill -9, as an operator or the kernel would."""
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGKILL)

    def end(self) -> None:
        """End it and its session for good."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
