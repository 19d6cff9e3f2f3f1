"""A launcher with the simulated engine, commands to its workers, and what the ledger says of them."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.stand import set_words
from contract import RedisLedger, Run, keys
from contract.fleet import Fleet
from tests.integration.runs import verdicts
from tests.support import (
    NOT_BY_ITSELF,
    PATIENCE_S,
    SIMULATED_MODEL,
    booted_pids,
    command,
    process,
    wait_until,
)


class Launched:
    """A running `workers up` with the simulated engine."""

    def __init__(self, process: subprocess.Popen[bytes], folder: Path) -> None:
        self.process = process
        self._log = folder / "up.log"

    def said(self) -> str:
        return self._log.read_text()

    def pids(self) -> list[int]:
        """Of all workers booted so far; each leads a session of its own."""
        return booted_pids(self.said())

    def wait_ready(self, times: int) -> None:
        wait_until(lambda: self.said().count("ready after") >= times, f"{times} boots")


@contextmanager
def launched(folder: Path, *settings: str, logs: str = "") -> Iterator[Launched]:
    """A launcher with these settings, its own lines and, unless `logs` says otherwise, its workers' in `folder`."""
    given = ("engine=simulated", f"model={SIMULATED_MODEL}", NOT_BY_ITSELF, *settings)
    chosen = set_words(given)
    with process("-m", "workers", "up", *chosen, "--logs", logs or str(folder), log=folder / "up.log") as launcher:
        yield Launched(launcher, folder)


def workers_command(*words: str, exit_code: int = 0) -> str:
    """What `python -m workers …` said, which must end so, and without a traceback."""
    done = command("-m", "workers", *words, exit_code=exit_code, timeout_s=PATIENCE_S)
    return done.stdout + done.stderr


def names(ledger: RedisLedger) -> list[str]:
    return [each.name.partition("@")[0] for each in Fleet(ledger.client).alive()]


def begun(ledger: RedisLedger, run: Run) -> bool:
    """Whether a worker has begun a question and not settled it."""
    return bool(ledger.client.hlen(keys.RunKeys(run.run_id).attempts))


def attempts(ledger: RedisLedger, run: Run) -> list[int]:
    return [verdict.attempts for verdict in verdicts(ledger, run)]
