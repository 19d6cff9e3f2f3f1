"""The real system, once for all acceptance tests: a server, `workers up` with vLLM on this machine, and Flower."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from contract import RedisLedger, load_settings
from demo.valkey import free_port
from producer.export.columns import NAMES
from tests.support import ROOT, booted_pids, command, process, url_of, valkey, wait_until

DEPLOY = "configs/deploy/laptop.yaml"
#: Time limit for a boot of vLLM, or a command that may wait for one. On two shared cores a boot takes over a minute.
BOOT_S = 600.0


@dataclass(frozen=True)
class Stack:
    """The running system, and ways to use it as a user would."""

    redis_url: str
    flower_url: str
    logs: Path
    results: Path

    @property
    def environment(self) -> dict[str, str]:
        return {"MCQUEUE_REDIS_URL": self.redis_url, "MCQUEUE_CONFIG": DEPLOY}

    def producer(self, *arguments: str, exit_code: int = 0) -> subprocess.CompletedProcess[str]:
        """Run `python -m producer …`, which must end with `exit_code`."""
        return command("-m", "producer", *arguments, environment=self.environment, exit_code=exit_code)

    def run_to_results(self, *enqueue: str, exit_code: int = 0) -> Path:
        """Enqueue, wait and export; return the folder with results.csv and summary.json."""
        done = self.producer("enqueue", *enqueue, "--watch", "--json", "--out", str(self.results), exit_code=exit_code)
        return self.results / str(json.loads(done.stdout)["run_id"])

    def ledger(self) -> RedisLedger:
        return RedisLedger.connect(load_settings(None, [f"redis_url={self.redis_url}"]))

    def flower(self, path: str) -> Any:
        """Return the answer of Flower's API."""
        with urllib.request.urlopen(self.flower_url + path, timeout=60) as answer:
            return json.load(answer)

    def worker_pid(self) -> int:
        """Return the process id of the worker that `workers up` currently runs."""
        return booted_pids((self.logs / "up.log").read_text())[-1]


def rows_of(folder: Path) -> list[dict[str, str]]:
    """Return the rows of results.csv, which has all its columns."""
    with (folder / "results.csv").open(encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file)
        assert tuple(reader.fieldnames or ()) == NAMES
        return list(reader)


def summary_of(folder: Path) -> dict[str, Any]:
    """Return the content of summary.json."""
    content: dict[str, Any] = json.loads((folder / "summary.json").read_text())
    return content


def found_by(script: str, given: Any, environment: Mapping[str, str] = {}) -> list[Any]:
    """Run `script` with `given` as JSON on stdin in a Python of its own; return the JSON values of its FOUND lines."""
    done = subprocess.run(
        [sys.executable, "-c", script],
        input=json.dumps(given),
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=BOOT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line.removeprefix("FOUND ")) for line in done.stdout.splitlines() if line.startswith("FOUND ")]


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    folder = tmp_path_factory.mktemp("stack")
    port = free_port()
    flower = ("-m", "celery", "-A", "workers.app", "flower", "--address=127.0.0.1", f"--port={port}")
    up = ("-m", "workers", "up", "--config", DEPLOY, "--logs", str(folder))
    with valkey(folder / "valkey") as server:
        made = Stack(url_of(server), f"http://127.0.0.1:{port}", folder, folder / "results")
        with (
            process(
                *flower,
                environment={**made.environment, "FLOWER_UNAUTHENTICATED_API": "true"},
                log=folder / "flower.log",
            ),
            process(*up, environment=made.environment, log=folder / "up.log") as launcher,
        ):
            wait_until(
                lambda: launcher.poll() is not None or "ready after" in (folder / "up.log").read_text(),
                f"vLLM to boot; logs in {folder}",
                timeout_s=BOOT_S,
            )
            assert launcher.poll() is None, (folder / "up.log").read_text()
            yield made
