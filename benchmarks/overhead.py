"""What does the queue itself cost? Real producer, server, Celery worker and ledger, around a zero-time engine.

| row | measured |
|---|---|
| enqueue | `producer enqueue` of a JSON Lines file, the whole command: start, validation, writing, publishing |
| score | from the first verdict to the last, one worker, `letter`, 16 questions per message; CPU of the worker |
| export | `producer export` to CSV, the whole command |
| first verdict | from the call that enqueues one question to its verdict in the ledger, on a warm idle worker |

CPU is that of every process except the server; memory (RSS) is the peak of a command's largest process (a large export
has two), and the worker's at the end. `--million` asks a million questions and compares the worker's CPU per question
in the last tenth of the run with the first.
"""

from __future__ import annotations

import statistics
import time
from argparse import ArgumentTypeError
from collections.abc import Iterator
from contextlib import closing
from itertools import pairwise
from typing import Any

from benchmarks.command import Parser, positive, run
from benchmarks.made_up import made_up_file
from benchmarks.record import bars, print_table, write
from benchmarks.stand import (
    Stand,
    Worker,
    cpu_s,
    producer,
    server_memory_bytes,
    settled,
    stand,
    wait_until_settled,
    worker,
)
from contract.errors import EngineError
from producer.broker import RedisBroker
from producer.intake.selection import Selection
from producer.readers import Source
from producer.runs.planning import plan
from producer.runs.runconfig import load_run_config
from producer.runs.submit import submit

#: Batches as in configs/deploy/gpu.yaml.
SETTINGS: dict[str, Any] = {
    "engine": "simulated",
    "model": "simulated-model",
    "question_batch_size": 16,
    "batch_size": 256,
}
RUN = ("--set", "mode=letter")
FIRST_VERDICTS = 20
LEAST_QUESTIONS = 10_000
MILLION = 1_000_000
MIB = 1024 * 1024
SHOWN = ("part", "questions", "questions_per_s", "cpu_us_per_question", "rss_mib", "last_tenth_to_first")


def enough(text: str) -> int:
    """Parse the number of questions for argparse; with fewer, a tenth is too short to be timed."""
    if positive(text) < LEAST_QUESTIONS:
        raise ArgumentTypeError(f"at least {LEAST_QUESTIONS:,}, or a tenth of them is too short to be timed")
    return int(text)


def main() -> None:
    parser = Parser(__doc__)
    parser.option("--questions", enough, 100_000, "number of questions")
    parser.add_argument("--million", action="store_const", dest="questions", const=MILLION, help="a million questions")
    options = parser.parse_args()
    count = options.questions
    with stand(**SETTINGS) as at:
        rows = list(measure(at, count))
    rates = [each for each in rows if "questions_per_s" in each]
    print_table(f"{count:,} questions", rates, SHOWN)
    for others in (each for each in rows if each not in rates):
        print_table(others["part"], [others])
    name = "overhead-million" if count == MILLION else "overhead"
    path = write(name, rows, options, settings=SETTINGS)
    costs = {each["part"]: each["cpu_us_per_question"] for each in rows if "cpu_us_per_question" in each}
    print(path, bars(path, f"CPU per question, {count:,} questions", "µs", costs))


def measure(at: Stand, count: int) -> Iterator[dict[str, Any]]:
    """Yield a row for each part of the path."""
    file = made_up_file(at.folder / "questions.jsonl", count)
    empty_bytes = server_memory_bytes(at.ledger.client)
    enqueued = producer(at.environment, "enqueue", str(file), *RUN, "--json")
    run_id = enqueued.said["run_id"]
    yield row("enqueue", count, enqueued.wall_s, enqueued.cpu_s, rss_mib=enqueued.peak_rss_bytes / MIB)
    queued_bytes = server_memory_bytes(at.ledger.client) - empty_bytes
    with worker(at) as scoring:
        yield score(at, run_id, count, scoring)
        settled_bytes = server_memory_bytes(at.ledger.client) - empty_bytes
        exported = producer(at.environment, "export", run_id, "--out", str(at.folder / "results"))
        yield row("export", count, exported.wall_s, exported.cpu_s, rss_mib=exported.peak_rss_bytes / MIB)
        yield first_verdict(at)
    yield {"part": "server", "queued_bytes_each": queued_bytes / count, "settled_bytes_each": settled_bytes / count}


def score(at: Stand, run_id: str, count: int, scoring: Worker) -> dict[str, Any]:
    """Score the run with one worker, timed in tenths; the first questions warm it up and are not counted."""
    marks = []
    for tenth in range(11):
        wait_until_settled(at, run_id, max(1, count * tenth // 10))
        marks.append((settled(at, run_id), time.monotonic(), cpu_s(scoring.process)))
    if any(earlier[0] == later[0] for earlier, later in pairwise(marks)):
        raise EngineError("A tenth was scored before it could be timed.", hint="Ask more questions (--questions).")
    (first, began, cpu_began), (last, ended, cpu_ended) = marks[0], marks[-1]
    each_us = [1e6 * (later[2] - earlier[2]) / (later[0] - earlier[0]) for earlier, later in pairwise(marks)]
    return row(
        "score",
        last - first,
        ended - began,
        cpu_ended - cpu_began,
        rss_mib=scoring.process.memory_info().rss / MIB,
        last_tenth_to_first=each_us[-1] / each_us[0],
        cpu_us_by_tenth=[round(each, 1) for each in each_us],
    )


def first_verdict(at: Stand) -> dict[str, Any]:
    """Ask single questions on an idle worker, one after another."""
    waits_ms = []
    file = made_up_file(at.folder / "one.jsonl", 1)
    with closing(RedisBroker(at.settings, at.ledger)) as broker:
        for number in range(FIRST_VERDICTS):
            asked = load_run_config(None, ["mode=letter", f"seed={number}"])
            planned = plan(Source(file, str(file)), asked, at.settings, Selection())
            started = time.monotonic()
            run_id = submit(planned, at.ledger, broker).run.run_id
            wait_until_settled(at, run_id, 1, poll_s=0.001)
            waits_ms.append(1000 * (time.monotonic() - started))
    return {
        "part": "first verdict",
        "median_ms": statistics.median(waits_ms),
        "slowest_ms": max(waits_ms),
        "batch_timeout_ms": 1000 * at.settings.batch_timeout,
    }


def row(part: str, count: int, wall_s: float, spent_s: float, **more: Any) -> dict[str, Any]:
    """Return the rate and cost of `count` questions."""
    return {
        "part": part,
        "questions": count,
        "wall_s": wall_s,
        "questions_per_s": count / wall_s,
        "cpu_us_per_question": 1e6 * spent_s / count,
        **more,
    }


if __name__ == "__main__":
    run(main)
