"""How long do questions wait that arrive one by one? Latency under load, by `batch_timeout` and overlap.

Questions arrive at `--rate` per second, each in its own message: as a Poisson process, or evenly with a jitter of a
tenth of a second either way. Latency is from a question's arrival to its verdict, by the verdict's own timestamp, and
so includes the time that it waits for the benchmark itself, which sends one after another. `static` workers run one
batch after another, `overlapped` ones as many as the deploy file says (at least two). Every setting has its own worker,
which has answered a few questions before. `behind_s` is the time from the last arrival to the last verdict: if it grows
with `--seconds`, the rate exceeds the worker's throughput, and the latencies are those of a growing queue.
"""

from __future__ import annotations

import random
import time
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any

import numpy as np

from benchmarks.asking import Asking, add_asking, asking_of, chosen_model, pin
from benchmarks.command import Parser, above_zero, run
from benchmarks.concurrency import opened, send, warm_up
from benchmarks.record import plot, print_table, write
from benchmarks.stand import Stand, stand, verdicts, wait_until_settled, worker
from contract.priority import Priority
from producer.broker import RedisBroker

JITTER_S = 0.1
SEED = 0


def main() -> None:
    parser = Parser(__doc__)
    add_asking(parser)
    parser.option("--rate", above_zero, 8.0, "questions per second")
    parser.option("--seconds", above_zero, 8.0, "duration of the arrivals, per row")
    parser.option("--timeouts", above_zero, (0.05, 0.3, 1.0), "values of batch_timeout")
    options = parser.parse_args()
    with stand(options.config, **chosen_model(options)) as at:
        asking = asking_of(options, at.settings)
        pin(at)
        rows = list(measure(at, asking, options))
    print_table(f"{options.rate:g} questions/s for {options.seconds:g} s, {asking.shown}", rows)
    path = write("load", rows, options, **asking.recorded(at.settings))
    lines: dict[str, list[tuple[float, float]]] = {}
    for each in rows:
        lines.setdefault(f"{each['batches']}, {each['arrivals']}", []).append((each["batch_timeout"], each["p95_s"]))
    print(path, plot(path, "95th percentile of latency", "batch_timeout, s", "s", lines))


def measure(at: Stand, asking: Asking, options: Namespace) -> Iterator[dict[str, Any]]:
    """Yield a row for each timeout, kind of worker and kind of arrivals."""
    count = max(1, round(options.rate * options.seconds))
    arrivals = {"Poisson": poisson(options.rate, count), "fixed, jittered": jittered(options.rate, count)}
    overlapped = max(2, at.settings.batches_in_flight)
    for timeout_s in options.timeouts:
        for batches, in_flight in (("static", 1), ("overlapped", overlapped)):
            most = 1 if in_flight == 1 else max(in_flight, at.settings.max_batches_in_flight)
            with worker(at, batch_timeout=timeout_s, batches_in_flight=in_flight, max_batches_in_flight=most):
                warm_up(at, asking, f"{batches}, {timeout_s:g} s, ")
                for kind, times in arrivals.items():
                    mark = f"{kind}, {batches}, {timeout_s:g} s"
                    found = latencies(at, asking, times, mark)
                    setting = {"batch_timeout": timeout_s, "batches": batches, "arrivals": kind}
                    behind_s = max(at_s + each for at_s, each in zip(times, found, strict=True)) - times[-1]
                    yield setting | {"requests": count} | percentiles(found) | {"behind_s": behind_s}


def poisson(rate: float, count: int) -> list[float]:
    """Return arrival times in seconds with exponential gaps."""
    draw, now, found = random.Random(SEED), 0.0, []
    for _ in range(count):
        now += draw.expovariate(rate)
        found.append(now)
    return found


def jittered(rate: float, count: int) -> list[float]:
    """Return evenly spaced arrival times, each shifted by up to a tenth of a second."""
    draw = random.Random(SEED)
    return sorted(max(0.0, n / rate + draw.uniform(-JITTER_S, JITTER_S)) for n in range(count))


def latencies(at: Stand, asking: Asking, times: Sequence[float], mark: str) -> list[float]:
    """Send questions at `times`; return the seconds from then to the verdict of each."""
    asked, questions = opened(at, asking, mark, len(times))
    with closing(RedisBroker(at.settings, at.ledger)) as broker:
        broker.publish(asked, [], Priority.NORMAL)  # connects
        started, started_at = time.monotonic(), time.time()
        for question, at_s in zip(questions, times, strict=True):
            time.sleep(max(0.0, started + at_s - time.monotonic()))
            send(at, broker, asked, question)
    wait_until_settled(at, asked.run_id, len(times))
    settled_at = [each.settled_at for each in verdicts(at, asked.run_id)]
    return [each - started_at - at_s for each, at_s in zip(settled_at, times, strict=True)]


def percentiles(found: Sequence[float]) -> dict[str, float]:
    """Return mean, p50, p95 and p99 in seconds."""
    p50, p95, p99 = np.percentile(found, (50, 95, 99))
    return {"mean_s": float(np.mean(found)), "p50_s": float(p50), "p95_s": float(p95), "p99_s": float(p99)}


if __name__ == "__main__":
    run(main)
