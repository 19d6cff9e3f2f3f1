"""Does a worker, or the server, grow with the questions that have passed through it? And what does a question take?

    python -m benchmarks.memory [--questions 200000] [--runs 20]

One worker with the simulated engine and one server take `--runs` runs one after the other; each is purged when it is
settled, so whatever grows from run to run is a leak. Bytes per question are measured on a run that stays: before it is
sent, when it is all in messages, and when it is settled.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil

from benchmarks.faults.case import Case
from benchmarks.faults.stage import Stage
from benchmarks.faults.waiting import wait_until
from benchmarks.record import print_table, write
from benchmarks.rubbish import only_environment

#: As a deployment would have it, but for the engine: what is measured is everything around it.
SETTINGS: dict[str, Any] = {"batch_size": 64, "batch_timeout": 0.1, "simulated": {}}
MIB = 1024 * 1024
#: The first runs fill caches and pools.
WARM_UP = 0.2


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--questions", type=int, default=200_000)
    parser.add_argument("--runs", type=int, default=20)
    chosen = parser.parse_args()
    each = chosen.questions // chosen.runs
    with only_environment({}), tempfile.TemporaryDirectory(prefix="memory-") as folder:
        stage = Stage(Path(folder), workers=0, message_questions=16)
        try:
            with stage.special_worker("chaos", **SETTINGS, url=stage.url) as worker:
                rows = [play(stage, worker.process.pid, each, number) for number in range(chosen.runs)]
            sizes = bytes_per_question(stage, each)
        finally:
            stage.close()
    steady = rows[int(len(rows) * WARM_UP) :]
    grown = {
        name: round(_slope([row["questions so far"] for row in steady], [row[name] for row in steady]) * 1e6, 2)
        for name in ("worker MiB", "server MiB")
    }
    print_table("Resident memory after each run", rows)
    print_table("Bytes in the server per question", [sizes])
    print(f"growth after the first runs, MiB per million questions: {grown}")
    command = f"python -m benchmarks.memory --questions {chosen.questions} --runs {chosen.runs}"
    print(write("memory", command, rows, bytes_per_question=sizes, mib_per_million_questions=grown))
    return 0


def play(stage: Stage, worker_pid: int, questions: int, number: int) -> dict[str, Any]:
    """One run from its writing to its purge, and what is resident then."""
    started = time.monotonic()
    case = stage.enqueue(questions)
    wait_until(lambda: stage.ledger.counts(case.run.run_id).finished, 600.0)
    seconds = time.monotonic() - started
    stage.ledger.purge(case.run.run_id)
    return {
        "questions so far": questions * (number + 1),
        "worker MiB": round(psutil.Process(worker_pid).memory_info().rss / MIB, 1),
        "server MiB": round(_server(stage, "used_memory_rss") / MIB, 1),
        "server's data MiB": round(_server(stage, "used_memory") / MIB, 2),
        "questions/s": round(questions / seconds),
    }


def bytes_per_question(stage: Stage, questions: int) -> dict[str, float]:
    """What the server holds for a question of the stage, in the three states that it can be in."""
    empty = _server(stage, "used_memory")
    case = stage.write(questions)
    written = _server(stage, "used_memory")
    stage.send(case)
    sent = _server(stage, "used_memory")
    settled = _settled(stage, case)
    return {
        "written": round((written - empty) / questions, 1),
        "and in a message of 16": round((sent - empty) / questions, 1),
        "settled": round((settled - empty) / questions, 1),
        "its JSON": len(case.bodies()[0]),
        "its verdict's JSON": len(case.verdict_bodies()[0]),
    }


def _settled(stage: Stage, case: Case) -> int:
    with stage.special_worker("chaos", **SETTINGS, url=stage.url):
        wait_until(lambda: stage.ledger.counts(case.run.run_id).finished, 600.0)
    return _server(stage, "used_memory")


def _server(stage: Stage, name: str) -> int:
    return int(stage.client.info("memory")[name])


def _slope(x: list[float], y: list[float]) -> float:
    """Least squares."""
    mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
    across = sum((a - mean_x) ** 2 for a in x)
    return sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True)) / across


if __name__ == "__main__":
    sys.exit(main())
