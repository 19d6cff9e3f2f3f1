"""What one request costs as more callers come: 1, 5, 10, 50 and 200 of them through the HTTP door, one question each.

    python -m benchmarks.door --out results/benchmarks

A call of the simulated engine takes the same time whatever is in it, which is what a GPU does with small batches, so
that sharing batches is all that can make requests cheaper. Each caller asks again as soon as it is answered.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.record import add_out, print_table, write
from benchmarks.stand import Stand, stand, worker
from demo.run import end
from demo.valkey import free_port

BOOT_WITHIN_S = 60.0


class Answered(NamedTuple):
    """One request, as its caller saw it."""

    took_s: float
    batch_size: int


def measure(url: str, callers: int, requests: int) -> dict[str, Any]:
    """One row: `callers` at a time until `requests` are answered."""

    def ask(number: int) -> Answered:
        body = {"question": f"What is {callers} and {number}?", "choices": ["3", "4", "5", "6"]}
        request = urllib.request.Request(
            f"{url}/score", json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        began = time.monotonic()
        with urllib.request.urlopen(request, timeout=120) as answer:
            verdict = json.load(answer)
        return Answered(time.monotonic() - began, verdict["batch_size"])

    with ThreadPoolExecutor(callers) as pool:
        list(pool.map(ask, range(-callers, 0)))  # everybody is at it before the clock starts
        began = time.monotonic()
        answers = list(pool.map(ask, range(requests)))
        wall_s = time.monotonic() - began
    sizes = sorted(each.batch_size for each in answers)
    waits = sorted(each.took_s for each in answers)
    return {
        "callers": callers,
        "requests": requests,
        "ms_per_request": wall_s * 1000 / requests,
        "median_wait_ms": statistics.median(waits) * 1000,
        "p95_wait_ms": waits[int(len(waits) * 0.95)] * 1000,
        "mean_batch": statistics.mean(sizes),
        "largest_batch": sizes[-1],
    }


@contextmanager
def door(at: Stand) -> Iterator[str]:
    """`python -m producer serve` on a free port; yields its URL once it answers."""
    port = free_port()
    with (at.folder / "serve.log").open("wb") as log:
        child = subprocess.Popen(
            [sys.executable, "-m", "producer", "serve", "--port", str(port)],
            env=at.environment,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        until = time.monotonic() + BOOT_WITHIN_S
        while not _answers(f"http://127.0.0.1:{port}/health"):
            if child.poll() is not None or time.monotonic() > until:
                raise SystemExit(f"the door did not open:\n{(at.folder / 'serve.log').read_text()[-2000:]}")
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}"
    finally:
        end([child])


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def main() -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--callers", type=int, nargs="+", default=[1, 5, 10, 50, 200])
    parser.add_argument("--rounds", type=int, default=10, help="requests per caller (10)")
    parser.add_argument("--call-ms", type=float, default=200, help="time of a call (200)")
    add_out(parser)
    options = parser.parse_args()
    settings = {"engine": "simulated", "model": "simulated", "simulated": {"call_ms": options.call_ms}}
    batching = {"batch_size": 64, "batch_timeout": 0.05, "batches_in_flight": 2}
    with stand(Path("configs/deploy/laptop.yaml"), **settings, **batching) as at, worker(at), door(at) as url:
        rows = [measure(url, callers, callers * options.rounds) for callers in options.callers]
    print_table(f"one question a request; a call takes {options.call_ms:g} ms", rows)
    command = f"python -m benchmarks.door --rounds {options.rounds} --call-ms {options.call_ms:g}"
    print(write("door", command, rows, options.out, batching=batching))
    return 0


if __name__ == "__main__":
    sys.exit(main())
