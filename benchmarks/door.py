"""The cost of a request as clients are added: 1, 5, 10, 50 and 200 of them over HTTP, one question per request.

A call of the simulated engine takes the same time whatever its size, like a GPU's with small batches, so only sharing
batches can make requests cheaper. Each client sends its next request as soon as it has an answer. `ms_per_request` is
wall time divided by requests; waits are those of a client, including up to `batch_timeout` (50 ms). `mean_batch` is the
mean, over the requests, of how many questions shared their call.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from benchmarks.asking import speed_settings
from benchmarks.command import Parser, above_zero, positive, run
from benchmarks.record import plot, print_table, write
from benchmarks.stand import DEPLOY, Stand, stand, started, worker
from contract.errors import EngineError
from contract.verdict import Outcome
from demo.valkey import free_port


class Answered(NamedTuple):
    """One request, as seen by its client."""

    took_s: float
    batch_size: int


def measure(url: str, callers: int, requests: int) -> dict[str, Any]:
    """Return a row: `callers` at a time until `requests` are answered."""

    def ask(number: int) -> Answered:
        body = {"question": f"What is {callers} and {number}?", "choices": ["3", "4", "5", "6"]}
        request = urllib.request.Request(
            f"{url}/score", json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        began = time.monotonic()
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                verdict = json.load(answer)
        except OSError as trouble:
            raise EngineError(f"The server did not answer a request: {trouble}") from None
        if verdict["outcome"] == Outcome.FAILED:
            raise EngineError(f"A question failed: {verdict['error']['message']}")
        return Answered(time.monotonic() - began, verdict["batch_size"])

    with ThreadPoolExecutor(callers) as pool:
        list(pool.map(ask, range(-callers, 0)))  # no client's first request is timed
        began = time.monotonic()
        answers = list(pool.map(ask, range(requests)))
        wall_s = time.monotonic() - began
    sizes = [each.batch_size for each in answers]
    waits_ms = [each.took_s * 1000 for each in answers]
    return {
        "callers": callers,
        "requests": requests,
        "ms_per_request": wall_s * 1000 / requests,
        "median_wait_ms": statistics.median(waits_ms),
        "p95_wait_ms": float(np.percentile(waits_ms, 95)),
        "mean_batch": statistics.mean(sizes),
        "largest_batch": max(sizes),
    }


@contextmanager
def door(at: Stand) -> Iterator[str]:
    """Run `python -m producer serve` on a free port; yield its URL once it answers."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "producer", "serve", "--port", str(port)]
    with started(command, at.environment, at.folder / "serve.log", lambda: _answers(f"{url}/health")):
        yield url


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def main() -> None:
    parser = Parser(__doc__)
    parser.option("--callers", positive, (1, 5, 10, 50, 200), "numbers of clients, one row each")
    parser.option("--rounds", positive, 10, "requests per client")
    parser.option("--call-ms", above_zero, 200.0, "duration of a call")
    options = parser.parse_args()
    settings = {"engine": "simulated", "model": "simulated", "simulated": {"call_ms": options.call_ms}}
    batching = {"batch_size": 64, "batch_timeout": 0.05, "batches_in_flight": 2}
    with stand(DEPLOY, **settings, **batching) as at, worker(at), door(at) as url:
        rows = [measure(url, callers, callers * options.rounds) for callers in options.callers]
    print_table(f"one question per request; a call takes {options.call_ms:g} ms", rows)
    path = write("door", rows, options, settings=speed_settings(at.settings))
    shown = {"time per request": "ms_per_request", "median wait": "median_wait_ms", "95th percentile": "p95_wait_ms"}
    lines = {name: [(row["callers"], row[column]) for row in rows] for name, column in shown.items()}
    print(path, plot(path, "Cost and wait of a request by clients", "clients", "ms", lines, log_x=True))


if __name__ == "__main__":
    run(main)
