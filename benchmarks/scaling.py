"""How well does throughput scale with workers? 1, 2, 4, 8 and 16 of them, with a simulated engine.

A call of the simulated engine takes a fixed time and no CPU, like a GPU's, so that many workers fit on one machine and
everything around the engine is measured: queue, aggregator, ledger, server. Efficiency is the rate divided by `workers`
times the nominal rate of one engine: `batches_in_flight` batches per call time. The rate is that of the whole run, from
the start of the first call to the last verdict, so efficiency cannot exceed 1. The table also has the machine's load:
CPU time of workers, server and producer per question, and the cores that workers and server used at that rate. If these
approach the number of cores, the machine is the limit.

A run ends with the worker that took a batch last, up to one call after the others; with 30 calls in a row, that alone
may cost 3 %.
"""

from __future__ import annotations

import os
from contextlib import ExitStack
from typing import Any

import psutil

from benchmarks.asking import require_whole_messages, speed_settings
from benchmarks.command import Parser, above_zero, positive, run
from benchmarks.made_up import made_up_file
from benchmarks.record import plot, print_table, write
from benchmarks.stand import DEPLOY, Stand, asked_between, cpu_s, settle, stand, verdicts, worker
from contract.wording import number

POLL_S = 0.2


def measure(at: Stand, workers: int, questions: int, name: str) -> dict[str, Any]:
    """Return a row: `workers` workers on `questions` questions."""
    with ExitStack() as stack:
        crew = [stack.enter_context(worker(at, f"{name}-{i}")) for i in range(workers)]
        server = psutil.Process(int(at.ledger.client.info("server")["process_id"]))
        file = made_up_file(at.folder / f"{name}.jsonl", questions)
        before, server_before = sum(cpu_s(each.process) for each in crew), cpu_s(server)
        done = settle(at, file, "--run", name, poll_s=POLL_S)
        worker_cpu_s = sum(cpu_s(each.process) for each in crew) - before
        server_cpu_s = cpu_s(server) - server_before
    began_at, ended_at = asked_between(verdicts(at, done.said["run_id"]))
    rate = questions / (ended_at - began_at)
    return {
        "workers": workers,
        "questions": questions,
        "questions_per_s": rate,
        "worker_ms_per_question": worker_cpu_s * 1000 / questions,
        "server_ms_per_question": server_cpu_s * 1000 / questions,
        "enqueue_ms_per_question": done.cpu_s * 1000 / questions,
        "cores_used": rate * (worker_cpu_s + server_cpu_s) / questions,
    }


def main() -> None:
    parser = Parser(__doc__)
    parser.option("--workers", positive, (1, 2, 4, 8, 16), "numbers of workers, one after another")
    parser.option("--call-ms", above_zero, 1000.0, "duration of a call")
    parser.option("--batch-size", positive, 64, "questions per call")
    parser.option("--batches", positive, 120, "batches per worker")
    options = parser.parse_args()
    simulated = {"call_ms": options.call_ms}
    settings = {"engine": "simulated", "model": "simulated", "batch_size": options.batch_size, "simulated": simulated}
    rows: list[dict[str, Any]] = []
    with stand(DEPLOY, **settings) as at:
        require_whole_messages(parser, at.settings)
        for workers in options.workers:
            questions = workers * options.batches * options.batch_size
            rows.append(measure(at, workers, questions, f"scaling-{workers}"))
            print(f"{number(workers, 'worker')}: {rows[-1]['questions_per_s']:.1f} questions/s", flush=True)
    # The nominal rate of one worker's engine, so that the first row has a reference too.
    engine_rate = options.batch_size * at.settings.batches_in_flight / (options.call_ms / 1000)
    for row in rows:
        row["efficiency"] = row["questions_per_s"] / (row["workers"] * engine_rate)
    cores = len(os.sched_getaffinity(0))
    print_table(f"{engine_rate:.0f} questions/s is the nominal rate of an engine; {number(cores, 'core')}", rows)
    path = write("scaling", rows, options, settings=speed_settings(at.settings), engine_questions_per_s=engine_rate)
    lines = {
        "measured": [(row["workers"], row["questions_per_s"]) for row in rows],
        "nominal rate of the engines": [(row["workers"], row["workers"] * engine_rate) for row in rows],
    }
    print(path, plot(path, "Questions per second by workers", "workers", "questions/s", lines, log_x=True))


if __name__ == "__main__":
    run(main)
