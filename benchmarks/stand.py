"""What the benchmarks stand on: a server of their own, real workers as one starts them by hand, made-up questions.

Nothing here replaces a part of the product: the server is Valkey, the worker is `celery -A workers.app worker`, and a
file is enqueued by the producer's own command.
"""

from __future__ import annotations

import json
import os
import resource
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import redis

from benchmarks.rubbish import only_environment
from contract.errors import EngineError
from contract.ledger import RedisLedger
from contract.settings import OVERRIDES_VARIABLE, PREFIX, Settings, load_settings
from demo.run import end
from demo.valkey import serve
from workers.launcher import worker_command

__all__ = [
    "Finished",
    "Stand",
    "Worker",
    "cpu_s",
    "look_after",
    "made_up_questions",
    "producer",
    "server_memory_bytes",
    "settled",
    "stand",
    "wait_until_settled",
    "worker",
]

POLL_S = 0.02
BOOT_WITHIN_S = 600.0
#: No call of an engine takes as long.
STALLED_AFTER_S = 300.0
TAIL_CHARACTERS = 2000


@dataclass(frozen=True, slots=True)
class Worker:
    """A worker that takes messages."""

    process: psutil.Process
    log: Path


@dataclass(frozen=True, slots=True)
class Stand:
    """A server and how to reach it."""

    settings: Settings
    ledger: RedisLedger
    #: Of all that is started here.
    environment: dict[str, str]
    folder: Path
    #: Those that are at work; nobody restarts them.
    workers: list[Worker] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Finished:
    """A command that ended well, and what it took."""

    stdout: str
    wall_s: float
    cpu_s: float
    peak_rss_bytes: int


@contextmanager
def stand(config: Path | None = None, **settings: Any) -> Iterator[Stand]:
    """An empty server and the settings of all that talk to it; `settings` lie over the deploy file `config`.

    Our variables of the environment do not count meanwhile: they would lead to somebody's own Redis.
    """
    with (
        only_environment({}),
        tempfile.TemporaryDirectory(prefix="mcqueue-bench-") as folder,
        serve(Path(folder) / "valkey") as url,
    ):
        overrides = {**settings, "redis_url": url}
        environment = {**os.environ, OVERRIDES_VARIABLE: json.dumps(overrides)}
        if config:
            environment[f"{PREFIX}CONFIG"] = str(config.resolve())
        found = load_settings(config, [f"{name}={json.dumps(value)}" for name, value in overrides.items()])
        ledger = RedisLedger.connect(found)
        try:
            yield Stand(found, ledger, environment, Path(folder))
        finally:
            ledger.client.close()


@contextmanager
def worker(at: Stand, name: str = "w0", queue: str = "", **settings: Any) -> Iterator[Worker]:
    """A worker on that server and queue, ready; `settings` lie over the stand's. Ended afterwards."""
    overrides = json.loads(at.environment[OVERRIDES_VARIABLE]) | settings
    in_flight = int(overrides.get("max_batches_in_flight", at.settings.max_batches_in_flight))
    reader, writer = os.pipe()
    environment = {**at.environment, OVERRIDES_VARIABLE: json.dumps(overrides), "MCQUEUE_READY_FD": str(writer)}
    log = at.folder / f"{name}.log"
    with log.open("wb") as output:
        child = subprocess.Popen(
            worker_command(f"{name}@bench", in_flight, queue),
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            pass_fds=(writer,),
            start_new_session=True,
        )
    os.close(writer)
    try:
        ready, _, _ = select.select([reader], [], [], BOOT_WITHIN_S)
        if not ready or not os.read(reader, 64):
            raise EngineError(f"The worker ended before it was ready:\n{_tail(log)}")
        found = Worker(psutil.Process(child.pid), log)
        at.workers.append(found)
        try:
            yield found
        finally:
            at.workers.remove(found)
    finally:
        os.close(reader)
        end([child])


def producer(at: Stand, *arguments: str) -> Finished:
    """`python -m producer …`, start of its interpreter included."""
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    child = subprocess.Popen([sys.executable, "-m", "producer", *arguments], env=at.environment, stdout=subprocess.PIPE)
    assert child.stdout is not None
    said = child.stdout.read().decode()
    _, status, used = os.wait4(child.pid, 0)
    wall_s = time.monotonic() - started
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise SystemExit(f"producer {' '.join(arguments)} ended with {child.returncode}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Finished(said, wall_s, spent_s, used.ru_maxrss * 1024)


def made_up_questions(path: Path, count: int) -> Path:
    """`count` questions of some twenty words with four choices, as JSON Lines."""
    with path.open("w") as file:
        for number in range(count):
            row = {
                "id": f"q{number:07}",
                "question": f"A tank holds {number} litres and loses three litres an hour. How many are left after "
                "two hours, if nothing is added?",
                "choices": [f"{number - 6 + step} litres" for step in range(4)],
                "answer": "ABCD"[number % 4],
                "subject": f"subject {number % 20}",
            }
            file.write(json.dumps(row) + "\n")
    return path


def settled(at: Stand, run_id: str) -> int:
    """Questions of the run that have their verdict."""
    return at.ledger.counts(run_id).settled


def look_after(at: Stand) -> None:
    """Raises EngineError with a worker's last words if one has ended, or if there is none."""
    if not at.workers:
        raise EngineError("No worker is at work.")
    for each in at.workers:
        if not each.process.is_running() or each.process.status() == psutil.STATUS_ZOMBIE:
            raise EngineError(f"A worker ended:\n{_tail(each.log)}")


def wait_until_settled(at: Stand, run_id: str, count: int, poll_s: float = POLL_S) -> None:
    """Return as soon as `count` questions of the run have their verdict. Raises EngineError if they will never."""
    seen, since = settled(at, run_id), time.monotonic()
    while seen < count:
        look_after(at)
        if time.monotonic() - since > STALLED_AFTER_S:
            tails = "\n".join(_tail(each.log) for each in at.workers)
            raise EngineError(f"No verdict for {STALLED_AFTER_S:.0f} s after {seen} of {count}:\n{tails}")
        time.sleep(poll_s)
        if (now := settled(at, run_id)) > seen:
            seen, since = now, time.monotonic()


def _tail(log: Path) -> str:
    return log.read_text(errors="replace")[-TAIL_CHARACTERS:]


def cpu_s(process: psutil.Process) -> float:
    """Seconds of CPU that the process and its living children have used."""
    family = [process, *process.children(recursive=True)]
    return sum(sum(each.cpu_times()[:2]) for each in family)


def server_memory_bytes(client: redis.Redis) -> int:
    """What the server's data takes, by its own account."""
    return int(client.info("memory")["used_memory"])
