"""What becomes of the time per request when many ask at once?

    python -m benchmarks.concurrency [--config DEPLOY] [--questions FILE] [--set mode=…] [--levels 1,5,10,50,200]
                                     [--out FOLDER]

One real worker; that many clients, each of which asks a question in a message of its own, waits for the verdict in the
ledger, and asks the next. Time per request is wall time over requests: it must fall as clients are added. Latency is
what a client waits, `batch_timeout` included.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from contextlib import closing
from itertools import pairwise
from typing import Any

from benchmarks.asking import Asking, add_asking, asking_of, pin
from benchmarks.record import add_out, plot, print_table, write
from benchmarks.stand import Stand, stand, worker
from contract import keys
from contract.ledger import Run
from contract.priority import Priority
from contract.question import Question
from producer.broker import RedisBroker
from producer.survey import taken

POLL_S = 0.002


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_asking(parser, limit=64)
    parser.add_argument("--levels", default="1,5,10,50,200")
    parser.add_argument("--requests", type=int, default=16, help="requests at least, per level (16)")
    add_out(parser)
    options = parser.parse_args()
    asking = asking_of(options)
    rows: list[dict[str, Any]] = []
    with stand(options.config) as at:
        pin(at.settings)
        with worker(at):
            clients(at, asking, 8, 8)  # the first batches of all are slow
            for level in map(int, options.levels.split(",")):
                rows.append(clients(at, asking, level, max(options.requests, level)))
        batching = at.settings.model_dump(include={"batch_size", "batch_timeout", "batches_in_flight"})
    print_table(f"Clients that wait for their verdicts, {', '.join(asking.overrides)}", rows)
    falls = all(later["s_per_request"] < earlier["s_per_request"] for earlier, later in pairwise(rows))
    print(f"Time per request falls with every level: {'yes' if falls else 'no'}")
    path = write(
        "concurrency",
        f"python -m benchmarks.concurrency --levels {options.levels}",
        rows,
        folder=options.out,
        settings=batching,
    )
    lines = {"wall time per request": [(each["clients"], each["s_per_request"]) for each in rows]}
    print(path, plot(path, "Time per request by clients", "clients", "s", lines, log_x=True))
    return 0


def clients(at: Stand, asking: Asking, level: int, requests: int) -> dict[str, Any]:
    """`requests` requests by `level` clients."""
    run, questions = opened(at, asking, f"{level} clients", requests)
    todo, waiting = keys.run_keys(run.run_id).todo, iter(questions)
    sent: dict[str, float] = {}
    latencies: list[float] = []
    with closing(RedisBroker(at.settings, at.ledger)) as broker:
        started = time.monotonic()
        while len(latencies) < requests:
            while len(sent) < level and (question := next(waiting, None)):
                sent[question.id] = time.monotonic()
                send(at, broker, run, question)
            time.sleep(POLL_S)
            ids = list(sent)
            for question_id, is_open in zip(ids, at.ledger.client.smismember(todo, ids), strict=True):
                if not is_open:
                    latencies.append(time.monotonic() - sent.pop(question_id))
        wall_s = time.monotonic() - started
    return {
        "clients": level,
        "requests": requests,
        "s_per_request": wall_s / requests,
        "requests_per_s": requests / wall_s,
        "mean_latency_s": statistics.mean(latencies),
        "slowest_latency_s": max(latencies),
    }


def opened(at: Stand, asking: Asking, mark: str, wanted: int) -> tuple[Run, list[Question]]:
    """A run of `wanted` questions, the file's again and again under new ids, of which none is written yet."""
    planned = asking.planned(at.settings, mark, at.folder)
    file = list(taken(planned.survey))
    questions = [file[n % len(file)].model_copy(update={"id": f"{n}"}) for n in range(wanted)]
    run = planned.run().model_copy(update={"questions": wanted})
    at.ledger.open_run(run)
    return run, questions


def send(at: Stand, broker: RedisBroker, run: Run, question: Question) -> None:
    """Write one question and send it. Until the last one is written, no audit takes the others for lost."""
    at.ledger.add_questions(run.run_id, [question])
    broker.publish(run, [question.id], Priority.NORMAL)


if __name__ == "__main__":
    sys.exit(main())
