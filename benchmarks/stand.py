"""The test bench of the benchmarks: a server of their own, real workers, the producer's commands.

Nothing here replaces a part of the product: the server is Valkey, workers are `celery -A workers.app worker`, as
started by hand or by `workers up`, and files are enqueued with the producer's own command.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import redis

from benchmarks.waiting import lives
from contract import variables
from contract.errors import EngineError, McqueueError
from contract.layers import merge
from contract.ledger import RedisLedger
from contract.settings import PREFIX, Settings, load_settings
from contract.verdict import Outcome, Verdict
from contract.wording import number
from demo.run import end
from demo.valkey import serve
from workers.engines.vllm_folder import vllm_folder
from workers.host.launcher import worker_command
from workers.parent import follower

__all__ = [
    "DEPLOY",
    "USERS_DEPLOY",
    "Finished",
    "Stand",
    "Worker",
    "ask_and_export",
    "asked_between",
    "cpu_s",
    "emptied",
    "host",
    "lasted_s",
    "look_after",
    "measured",
    "newest",
    "only_environment",
    "producer",
    "refuse_failures",
    "server_memory_bytes",
    "set_words",
    "settle",
    "settled",
    "stand",
    "started",
    "verdicts",
    "wait_until_settled",
    "worker",
]

DEPLOY = Path("configs/deploy/laptop.yaml")
#: The deploy file of benchmarks that users run on their own model and questions.
USERS_DEPLOY = Path(os.environ.get(variables.CONFIG) or DEPLOY)
POLL_S = 0.02
#: Start-up limit of processes that have no other.
START_WITHIN_S = 600.0
#: Added to `server_startup_timeout`, as by the launcher: for Python and its imports.
PYTHON_S = 30.0
#: Longer than any call of an engine.
STALLED_AFTER_S = 300.0
TAIL_CHARACTERS = 2000
#: Runs a command from a process that is smaller than any of ours, and tells its exit code and what it used: to the
#: kernel, the peak of a child is at least the memory of the process that started it. SIGTERM ends both.
MEASURE = """
import os, signal, sys, time
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])  # until it is known whom to tell of it
signal.signal(signal.SIGTERM, lambda *_: os.kill(child, signal.SIGTERM))
signal.signal(signal.SIGINT, lambda *_: None)  # the command gets it, too
os.set_inheritable(int(sys.argv[1]), False)
began = time.monotonic()
child = os.posix_spawnp(sys.argv[2], sys.argv[2:], os.environ, setsigmask=[])
signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
_, status, used = os.wait4(child, 0)
wall_s = time.monotonic() - began
figures = os.waitstatus_to_exitcode(status), wall_s, used.ru_utime + used.ru_stime, used.ru_maxrss
try:
    os.write(int(sys.argv[1]), " ".join(map(str, figures)).encode())
except BrokenPipeError:  # the benchmark was killed
    pass
"""


@dataclass(frozen=True, slots=True)
class Worker:
    """A worker that takes messages."""

    process: psutil.Process
    log: Path


@dataclass(frozen=True, slots=True)
class Stand:
    """A server, and what is needed to reach it."""

    settings: Settings
    ledger: RedisLedger
    #: Environment of everything that is started here.
    environment: dict[str, str]
    folder: Path
    #: The running workers; they are not restarted.
    workers: list[Worker] = field(default_factory=list)
    #: How long a run may go without a verdict.
    stalled_after_s: float = STALLED_AFTER_S


@dataclass(frozen=True, slots=True)
class Finished:
    """A command that succeeded, and the resources it used."""

    stdout: str
    wall_s: float
    cpu_s: float
    peak_rss_bytes: int

    @property
    def said(self) -> dict[str, Any]:
        """Return what it printed for `--json`."""
        return dict(json.loads(self.stdout))


@contextmanager
def only_environment(variables: dict[str, str]) -> Iterator[None]:
    """Replace our variables in the environment by `variables` within the block."""
    before = {name: value for name, value in os.environ.items() if name.startswith(PREFIX)}
    for name in before:
        del os.environ[name]
    os.environ.update(variables)
    try:
        yield
    finally:
        for name in variables:
            os.environ.pop(name, None)
        os.environ.update(before)


@contextmanager
def stand(config: Path | None = None, **settings: Any) -> Iterator[Stand]:
    """Yield an empty server and the settings of its clients; `settings` override the deploy file `config`.

    Our variables in the environment are ignored within the block: they might lead to somebody's own Redis.
    """
    with (
        only_environment({}),
        vllm_folder(),  # also for vLLM without a worker, which would leave its sockets
        tempfile.TemporaryDirectory(prefix="mcqueue-bench-") as folder,
        _left_by_nobody(folder),
        serve(Path(folder) / "valkey") as url,
    ):
        overrides = {**settings, "redis_url": url}
        environment = {**os.environ, variables.OVERRIDES: json.dumps(overrides)}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)  # else every command would compile all our modules
        if config:
            environment[variables.CONFIG] = str(config.resolve())
        found = load_settings(config, [f"{name}={json.dumps(value)}" for name, value in overrides.items()])
        ledger = RedisLedger.connect(found)
        try:
            yield Stand(found, ledger, environment, Path(folder))
        finally:
            ledger.client.close()


@contextmanager
def _left_by_nobody(folder: str) -> Iterator[None]:
    """If this process is killed in the block, kill the server in `folder`, and delete that.

    A shell waits for it: until then, it reads from a pipe of ours.
    """
    script = 'read -r _; kill -9 "$(cat "$0/valkey/server.pid")"; rm -rf "$0"'
    command = ["sh", "-c", script, folder]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True) as shell:
        try:
            yield
        finally:
            shell.kill()


@contextmanager
def started(
    command: Sequence[str],
    environment: Mapping[str, str],
    log: Path,
    ready: Callable[[], bool],
    within_s: float = START_WITHIN_S,
) -> Iterator[subprocess.Popen[bytes]]:
    """Yield a process once it is `ready`, and end it afterwards; from the main thread, with which it ends too.

    Raises EngineError with the end of its log if it is not ready in time.
    """
    with log.open("wb") as output:
        child = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=follower(),  # else it would outlive a killed benchmark, with all its GPU memory
        )
    try:
        until = time.monotonic() + within_s
        while not ready():
            if child.poll() is not None or time.monotonic() > until:
                why = f"Not ready after {within_s:g} s" if child.poll() is None else "The process ended"
                raise EngineError(f"{why}; {log.name} ends with:\n{_tail(log)}")
            time.sleep(POLL_S)
        yield child
    finally:
        end([child])


@contextmanager
def worker(
    at: Stand, name: str = "w0", queue: str = "", environment: Mapping[str, str] | None = None, **settings: Any
) -> Iterator[Worker]:
    """Yield a ready worker on that server and queue, and end it afterwards.

    `environment` and `settings` override the stand's.
    """
    overrides = merge(json.loads(at.environment[variables.OVERRIDES]), settings)
    within_s = float(overrides.get("server_startup_timeout", at.settings.server_startup_timeout)) + PYTHON_S
    environment = {**at.environment, **(environment or {}), variables.OVERRIDES: json.dumps(overrides)}
    log = at.folder / f"{name}.log"
    command = worker_command(f"{name}@bench", queue)
    with started(command, environment, log, lambda: "ready: takes question batches" in _said(log), within_s) as child:
        found = Worker(psutil.Process(child.pid), log)
        at.workers.append(found)
        try:
            yield found
        finally:
            at.workers.remove(found)


@contextmanager
def host(at: Stand, logs: Path) -> Iterator[None]:
    """Run `python -m workers up` as a user would, until a worker is ready; all logs are in `logs`."""
    log = logs / "up.log"
    command = [sys.executable, "-m", "workers", "up", "--logs", str(logs)]
    with started(
        command,
        at.environment,
        log,
        lambda: "ready after" in _said(log),
        at.settings.server_startup_timeout + PYTHON_S,
    ):
        yield


def producer(environment: Mapping[str, str], *arguments: str) -> Finished:
    """Run `python -m producer …`, including interpreter start-up. Raises McqueueError if it fails; stderr says why."""
    found, code = measured([sys.executable, "-m", "producer", *arguments], environment)
    if code:
        raise McqueueError(f"producer {' '.join(arguments)} ended with {code}.")
    return found


def measured(command: Sequence[str], environment: Mapping[str, str]) -> tuple[Finished, int]:
    """Run a command, from the main thread, with which it ends too; return it with its exit code."""
    told, tell = os.pipe()
    with (
        os.fdopen(told) as figures,
        subprocess.Popen(
            [sys.executable, "-S", "-E", "-c", MEASURE, str(tell), *command],
            env=environment,
            stdout=subprocess.PIPE,
            pass_fds=[tell],
            preexec_fn=follower(),
        ) as child,
    ):
        os.close(tell)
        assert child.stdout is not None
        try:
            said = child.stdout.read().decode()
            code, wall_s, spent_s, peak_kib = figures.read().split()
        finally:
            end([child])
    return Finished(said, float(wall_s), float(spent_s), int(peak_kib) * 1024), int(code)


def set_words(overrides: Iterable[str]) -> list[str]:
    """Return `overrides`, NAME=VALUE each, as words of a command line."""
    return [word for each in overrides for word in ("--set", each)]


def ask_and_export(at: Stand, asking: Sequence[str], folder: Path) -> dict[str, Any]:
    """Enqueue a file with the arguments `asking`, wait, and export it as JSON Lines too; return the run's summary.

    The results are in a folder in `folder`, named after the run.
    """
    out = ("--out", str(folder), "--json")
    summary = producer(at.environment, "enqueue", *asking, "--watch", *out).said
    producer(at.environment, "export", summary["run_id"], "--format", "jsonl", *out)
    return summary


def emptied(folder: Path) -> Path:
    """Return `folder`, emptied of the files of an earlier benchmark."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def settled(at: Stand, run_id: str, *, may_fail: bool = False) -> int:
    """Return the number of questions of the run that have their verdict.

    Raises EngineError with the reason if one failed, unless it `may_fail`: a failure takes less time than an answer, or
    more.
    """
    counts = at.ledger.counts(run_id)
    if (failed := counts.of(Outcome.FAILED)) and not may_fail:
        refuse_failures(verdicts(at, run_id), f"{failed} of {number(counts.total, 'question')} failed")
    return counts.settled


def refuse_failures(found: Iterable[Verdict], what: str = "A question failed") -> None:
    """Raise EngineError with `what` and the reason if one of the verdicts is a failure."""
    why = next((each.error for each in found if each.outcome is Outcome.FAILED), None)
    if why:
        raise EngineError(f"{what}: {why.message}")


def verdicts(at: Stand, run_id: str) -> list[Verdict]:
    """Return the verdicts of the run so far, in its order."""
    return [verdict for _, verdict in at.ledger.results(run_id) if verdict]


def newest(at: Stand) -> list[Verdict]:
    """Return the verdicts of the newest run, in its order."""
    return verdicts(at, at.ledger.runs()[0].run_id)


def asked_between(found: Sequence[Verdict]) -> tuple[float, float]:
    """Return when the engine was first asked for one of these verdicts, and the time of the last one, as Unix times."""
    return min(each.settled_at - each.latency_ms / 1000 for each in found), max(each.settled_at for each in found)


def lasted_s(found: Sequence[Verdict]) -> float:
    """Return the seconds from when the first of the questions was published to the last of these, their verdicts."""
    published_at = min(each.settled_at - (each.queued_ms + each.latency_ms) / 1000 for each in found)
    return max(each.settled_at for each in found) - published_at


def look_after(at: Stand) -> None:
    """Raise EngineError if a worker has ended, with the end of its log, or if there is none."""
    if not at.workers:
        raise EngineError("No worker is running.")
    for each in at.workers:
        if not lives(each.process):
            raise EngineError(f"A worker ended:\n{_tail(each.log)}")


def wait_until_settled(at: Stand, run_id: str, count: int, poll_s: float = POLL_S, *, may_fail: bool = False) -> None:
    """Return once `count` questions of the run have their verdict.

    Raises EngineError if progress stops, or a question failed, unless it `may_fail`.
    """
    seen, since = settled(at, run_id, may_fail=may_fail), time.monotonic()
    while seen < count:
        look_after(at)
        if time.monotonic() - since > at.stalled_after_s:
            tails = "\n".join(_tail(each.log) for each in at.workers)
            raise EngineError(f"No verdict for {at.stalled_after_s:.0f} s after {seen} of {count}:\n{tails}")
        time.sleep(poll_s)
        if (now := settled(at, run_id, may_fail=may_fail)) > seen:
            seen, since = now, time.monotonic()


def _said(log: Path) -> str:
    """Return a log so far, which may end within a character."""
    return log.read_text(errors="replace")


def _tail(log: Path) -> str:
    return _said(log)[-TAIL_CHARACTERS:]


def settle(at: Stand, file: Path, *arguments: str, poll_s: float = POLL_S) -> Finished:
    """Enqueue the file, wait until all its questions are settled, and return the command's output and resources."""
    done = producer(at.environment, "enqueue", str(file), *arguments, "--json")
    wait_until_settled(at, done.said["run_id"], done.said["questions"], poll_s)
    return done


def cpu_s(process: psutil.Process) -> float:
    """Return the CPU seconds used by the process and its living children."""
    family = [process, *process.children(recursive=True)]
    return sum(sum(each.cpu_times()[:2]) for each in family)


def server_memory_bytes(client: redis.Redis, what: str = "used_memory") -> int:
    """Return the size of the server's data as reported by it, or another figure of its memory."""
    return int(client.info("memory")[what])
