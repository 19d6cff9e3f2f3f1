"""Does the memory of a worker or the server grow with the questions that pass through it? And how much does one take?

One worker with the simulated engine and one server process `--runs` runs one after another; each is purged when it is
settled, so whatever grows from run to run is a leak. Bytes per question are measured on a run that is kept: before it
is sent, when all of it is in messages, and when it is settled.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil

from benchmarks.command import Parser, positive, run
from benchmarks.faults.case import Case
from benchmarks.faults.stage import Stage
from benchmarks.record import print_table, write
from benchmarks.stand import only_environment, server_memory_bytes
from benchmarks.waiting import wait_until

#: As in a deployment, except for the engine, as everything around it is measured.
SETTINGS: dict[str, Any] = {"batch_size": 64, "batch_timeout": 0.1, "simulated": {}}
MIB = 1024 * 1024
#: Share of the runs that only fill caches and pools.
WARM_UP = 0.2


def main() -> None:
    parser = Parser(__doc__)
    parser.option("--questions", positive, 200_000, "questions of all runs together")
    parser.option("--runs", positive, 20, "runs, one after another")
    options = parser.parse_args()
    each = options.questions // options.runs
    if options.runs - int(options.runs * WARM_UP) < 2 or not each:
        parser.error("growth takes at least two runs after the first fifth, and a question in each")
    with only_environment({}), tempfile.TemporaryDirectory(prefix="memory-") as folder:
        stage = Stage(Path(folder), workers=0, message_questions=16)
        try:
            with stage.special_worker("chaos", **SETTINGS, url=stage.url) as worker:
                rows = [play(stage, worker.process.pid, each, number) for number in range(options.runs)]
            sizes = bytes_per_question(stage, each)
        finally:
            stage.close()
    steady = rows[int(len(rows) * WARM_UP) :]
    so_far = [row["questions so far"] for row in steady]
    grown = {
        name: round(statistics.linear_regression(so_far, [row[name] for row in steady]).slope * 1e6, 2)
        for name in ("worker MiB", "server MiB")
    }
    print_table("Resident memory after each run", rows)
    print_table("Bytes in the server per question", [sizes])
    print(f"growth after warm-up, MiB per million questions: {grown}")
    print(write("memory", rows, options, bytes_per_question=sizes, mib_per_million_questions=grown))


def play(stage: Stage, worker_pid: int, questions: int, number: int) -> dict[str, Any]:
    """Write, score and purge one run; return the resident memory afterwards."""
    started = time.monotonic()
    case = stage.enqueue(questions)
    wait_until(lambda: stage.ledger.counts(case.run.run_id).finished, 600.0)
    seconds = time.monotonic() - started
    stage.ledger.purge(case.run.run_id)
    return {
        "questions so far": questions * (number + 1),
        "worker MiB": round(psutil.Process(worker_pid).memory_info().rss / MIB, 1),
        "server MiB": round(server_memory_bytes(stage.client, "used_memory_rss") / MIB, 1),
        "server's data MiB": round(server_memory_bytes(stage.client) / MIB, 2),
        "questions/s": round(questions / seconds),
    }


def bytes_per_question(stage: Stage, questions: int) -> dict[str, float]:
    """Return what the server holds for a question of the stage in each of its three states."""
    empty = server_memory_bytes(stage.client)
    case = stage.write(questions)
    written = server_memory_bytes(stage.client)
    stage.send(case)
    sent = server_memory_bytes(stage.client)
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
    return server_memory_bytes(stage.client)


if __name__ == "__main__":
    run(main)
