"""Does the memory of a worker or the server grow with the questions that pass through it? And how much does one take?

One worker with the simulated engine and one server process `--runs` runs one after another; each is purged when it is
settled, so whatever grows from run to run is a leak. Bytes per question are measured on a run that is kept: before it
is sent, when all of it is in messages, and when it is settled.
"""

from __future__ import annotations

import statistics
import time
from contextlib import closing
from typing import Any

import psutil
from celery import Celery

from benchmarks.command import Parser, positive, run
from benchmarks.made_up import made_up_question, made_up_run, made_up_spec
from benchmarks.record import print_table, write
from benchmarks.stand import Stand, server_memory_bytes, stand, wait_until_settled, worker
from contract import Run, keys
from contract.queue import make_celery, publish

#: As in a deployment, except for the engine, as everything around it is measured.
SETTINGS: dict[str, Any] = {"engine": "simulated", "model": "simulated", "batch_size": 64, "batch_timeout": 0.1}
QUESTIONS_PER_MESSAGE = 16
#: Name of the worker, which is in every verdict.
NAME = "memory"
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
    with stand(**SETTINGS) as at, closing(make_celery(at.settings)) as app:
        with worker(at, NAME) as ours:
            rows = [play(at, app, ours.process, each, number) for number in range(options.runs)]
        sizes = bytes_per_question(at, app, each)
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


def play(at: Stand, app: Celery, process: psutil.Process, questions: int, number: int) -> dict[str, Any]:
    """Write, score and purge one run; return the resident memory of `process`, the worker, and the server after it."""
    started = time.monotonic()
    asked = written(at, questions, number)
    send(at, app, asked)
    wait_until_settled(at, asked.run_id, questions)
    seconds = time.monotonic() - started
    at.ledger.purge(asked.run_id)
    client = at.ledger.client
    return {
        "questions so far": questions * (number + 1),
        "worker MiB": round(process.memory_info().rss / MIB, 1),
        "server MiB": round(server_memory_bytes(client, "used_memory_rss") / MIB, 1),
        "server's data MiB": round(server_memory_bytes(client) / MIB, 2),
        "questions/s": round(questions / seconds),
    }


def bytes_per_question(at: Stand, app: Celery, questions: int) -> dict[str, float]:
    """Return what the server holds for a question in each of its three states."""
    client = at.ledger.client
    empty_bytes = server_memory_bytes(client)
    asked = written(at, questions, 0)
    written_bytes = server_memory_bytes(client)
    send(at, app, asked)
    sent_bytes = server_memory_bytes(client)
    with worker(at, NAME):
        wait_until_settled(at, asked.run_id, questions)
    settled_bytes = server_memory_bytes(client)  # without the buffers of the worker's connections
    stored = keys.RunKeys(asked.run_id)
    return {
        "written": round((written_bytes - empty_bytes) / questions, 1),
        "and in a message of 16": round((sent_bytes - empty_bytes) / questions, 1),
        "settled": round((settled_bytes - empty_bytes) / questions, 1),
        "its JSON": len(client.hvals(stored.questions)[0]),
        "its verdict's JSON": len(client.hvals(stored.verdicts)[0]),
    }


def written(at: Stand, count: int, number: int) -> Run:
    """Write run `number` of `count` questions into the ledger, and send nothing."""
    questions = [made_up_question(each) for each in range(count)]
    found = made_up_run(f"case-{number}", questions, made_up_spec(questions, at.settings.model))
    at.ledger.open_run(found)
    at.ledger.add_questions(found.run_id, questions)
    return found


def send(at: Stand, app: Celery, asked: Run) -> None:
    """Publish all questions of the run."""
    queue, ids = keys.score_queue(at.settings.model), at.ledger.unsettled(asked.run_id)
    publish(app, queue, asked.run_id, ids, QUESTIONS_PER_MESSAGE)


if __name__ == "__main__":
    run(main)
