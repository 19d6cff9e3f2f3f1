"""mcqueue as a person has it, for a benchmark: a server of its own, `workers up`, and the producer's commands."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from contract.settings import CONFIG_VARIABLE, PREFIX
from demo.run import end
from demo.valkey import serve

__all__ = ["DEPLOY", "producer", "served"]

DEPLOY = Path("configs/deploy/laptop.yaml")
BOOT_WITHIN_S = 600.0


@contextmanager
def served(logs: Path, *overrides: str, deploy: Path = DEPLOY) -> Iterator[Mapping[str, str]]:
    """A server and a worker that is ready, with `overrides` as of `--set`; yields the environment of a producer."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}
    with tempfile.TemporaryDirectory() as data, serve(Path(data)) as url:
        environment = {**clean, f"{PREFIX}REDIS_URL": url, CONFIG_VARIABLE: str(deploy.resolve())}
        command = [sys.executable, "-m", "workers", "up", "--config", str(deploy), "--logs", str(logs)]
        command += [word for each in overrides for word in ("--set", each)]
        log = logs / "up.log"
        with log.open("wb") as output:
            worker = subprocess.Popen(command, env=environment, stdout=output, stderr=output, start_new_session=True)
        try:
            _await_ready(worker, log)
            yield environment
        finally:
            end([worker])


def _await_ready(worker: subprocess.Popen[bytes], log: Path) -> None:
    """Return when the launcher has announced a worker."""
    until = time.monotonic() + BOOT_WITHIN_S
    while "ready after" not in log.read_text():
        if worker.poll() is not None or time.monotonic() > until:
            raise SystemExit(f"no worker; see {log}")
        time.sleep(0.2)


def producer(environment: Mapping[str, str], command: str, *arguments: str) -> dict[str, Any]:
    """What a command of the producer prints."""
    whole = [sys.executable, "-m", "producer", command, *arguments]
    done = subprocess.run(whole, env=environment, stdout=subprocess.PIPE, check=True)
    return dict(json.loads(done.stdout))
