"""What do single questions wait that arrive one by one? Latency under a load, by `batch_timeout` and overlap.

    python -m benchmarks.load [--config DEPLOY] [--questions FILE] [--set mode=…] [--rate N] [--seconds S]
                              [--timeouts 0.05,0.3,1] [--out FOLDER]

Questions arrive at `--rate` per second, each in a message of its own: by a Poisson process, or evenly with a jitter of
a tenth of a second either way. Latency is from enqueuing to the verdict, by the verdict's own clock. `static` workers
run one batch after the other, `overlapped` ones as many as the deploy file says (two at least). One worker per setting.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any

import numpy as np

from benchmarks.asking import Asking, add_asking, asking_of, pin
from benchmarks.concurrency import opened, send
from benchmarks.record import add_out, plot, print_table, write
from benchmarks.stand import Stand, settled, stand, worker
from contract.priority import Priority
from producer.broker import RedisBroker

JITTER_S = 0.1
SEED = 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_asking(parser, limit=64)
    parser.add_argument("--rate", type=float, default=8.0, help="questions per second (8)")
    parser.add_argument("--seconds", type=float, default=8.0, help="how long they arrive, per row (8)")
    parser.add_argument("--timeouts", default="0.05,0.3,1", help="values of batch_timeout")
    add_out(parser)
    options = parser.parse_args()
    asking = asking_of(options)
    with stand(options.config) as at:
        pin(at.settings)
        rows = list(measure(at, asking, options))
    print_table(f"{options.rate:g} questions/s for {options.seconds:g} s, {', '.join(asking.overrides)}", rows)
    command = (
        f"python -m benchmarks.load --rate {options.rate:g} --seconds {options.seconds:g} --timeouts {options.timeouts}"
    )
    path = write("load", command, rows, folder=options.out)
    lines: dict[str, list[tuple[float, float]]] = {}
    for each in rows:
        lines.setdefault(f"{each['batches']}, {each['arrivals']}", []).append((each["batch_timeout"], each["p95_s"]))
    print(path, plot(path, "95th percentile of latency", "batch_timeout, s", "s", lines))
    return 0


def measure(at: Stand, asking: Asking, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """A row per timeout, kind of worker and kind of arrivals."""
    count = round(options.rate * options.seconds)
    arrivals = {"Poisson": poisson(options.rate, count), "fixed, jittered": jittered(options.rate, count)}
    overlapped = max(2, at.settings.batches_in_flight)
    for timeout_s in map(float, options.timeouts.split(",")):
        for batches, in_flight in (("static", 1), ("overlapped", overlapped)):
            with worker(at, batch_timeout=timeout_s, batches_in_flight=in_flight):
                for kind, times in arrivals.items():
                    mark = f"{kind}, {batches}, {timeout_s:g} s"
                    found = latencies(at, asking, times, mark)
                    setting = {"batch_timeout": timeout_s, "batches": batches, "arrivals": kind}
                    yield setting | {"requests": count} | percentiles(found)


def poisson(rate: float, count: int) -> list[float]:
    """Arrival times in seconds with exponential gaps."""
    draw, now, found = random.Random(SEED), 0.0, []
    for _ in range(count):
        now += draw.expovariate(rate)
        found.append(now)
    return found


def jittered(rate: float, count: int) -> list[float]:
    """Evenly spaced arrival times, each moved by up to a tenth of a second."""
    draw = random.Random(SEED)
    return sorted(max(0.0, n / rate + draw.uniform(-JITTER_S, JITTER_S)) for n in range(count))


def latencies(at: Stand, asking: Asking, times: Sequence[float], mark: str) -> list[float]:
    """Seconds from enqueuing to verdict of questions sent at `times`."""
    run, questions = opened(at, asking, mark, len(times))
    sent = {}
    with closing(RedisBroker(at.settings, at.ledger)) as broker:
        broker.publish(run, [], Priority.NORMAL)  # connects
        started = time.monotonic()
        for question, at_s in zip(questions, times, strict=True):
            time.sleep(max(0.0, started + at_s - time.monotonic()))
            sent[question.id] = time.time()
            send(at, broker, run, question)
    while settled(at, run.run_id) < len(times):
        time.sleep(0.02)
    return [verdict.settled_at - sent[question.id] for question, verdict in at.ledger.results(run.run_id) if verdict]


def percentiles(found: Sequence[float]) -> dict[str, float]:
    """Mean, p50, p95, p99 in seconds."""
    p50, p95, p99 = np.percentile(found, (50, 95, 99))
    return {"mean_s": float(np.mean(found)), "p50_s": float(p50), "p95_s": float(p95), "p99_s": float(p99)}


if __name__ == "__main__":
    sys.exit(main())
