"""Whether slow and fast workers of one queue finish together.

    python -m benchmarks.makespan

Simulated engines whose calls take a fixed time each, some longer than others, share one run. Ideal is the run's
questions over the sum of the engines' own rates (`batches_in_flight` batches per call time): no worker idle, nothing
between two calls, and nobody waits for another at the end. The makespan is from the first call's beginning to the last
verdict. It cannot be shorter than the slowest engine's last call, which counts for more in a short run.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmarks.record import add_out, print_table, write
from benchmarks.stand import Stand, made_up_questions, producer, stand, wait_until_settled, worker

POLL_S = 0.2


def measure(at: Stand, calls_ms: list[float], seconds: float, name: str) -> dict[str, Any]:
    """One row: a run that would ideally take so many seconds."""
    batch, in_flight = at.settings.batch_size, at.settings.batches_in_flight
    rate = sum(in_flight * batch / (call_ms / 1000) for call_ms in calls_ms)
    questions = round(rate * seconds / batch) * batch
    with ExitStack() as stack:
        for number, call_ms in enumerate(calls_ms):
            stack.enter_context(worker(at, f"{name}-{number}", simulated={"call_ms": call_ms}))
        producer(at, "enqueue", str(made_up_questions(at.folder / f"{name}.jsonl", questions)), "--run", name, "--json")
        run_id = at.ledger.runs()[0].run_id
        wait_until_settled(at, run_id, questions, POLL_S)
    verdicts = [verdict for _, verdict in at.ledger.results(run_id) if verdict]
    began_at = min(each.settled_at - each.latency_ms / 1000 for each in verdicts)
    ended_at: dict[str, float] = defaultdict(float)
    for each in verdicts:
        ended_at[each.worker] = max(ended_at[each.worker], each.settled_at)
    makespan_s, ideal_s = max(ended_at.values()) - began_at, questions / rate
    return {
        "calls_ms": " ".join(f"{each:g}" for each in calls_ms),
        "questions": questions,
        "ideal_s": ideal_s,
        "makespan_s": makespan_s,
        "over_ideal": makespan_s / ideal_s - 1,
        "idle_at_the_end_s": " ".join(
            f"{max(ended_at.values()) - ended_at[each]:.2f}" for each in sorted(ended_at, key=str)
        ),
    }


def main() -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls-ms", type=float, nargs="+", default=[2000, 1000, 500], help="one per worker")
    parser.add_argument("--seconds", type=float, nargs="+", default=[15, 45], help="ideal length of each run")
    parser.add_argument("--batch-size", type=int, default=32)
    add_out(parser)
    options = parser.parse_args()
    rows = []
    with stand(
        Path("configs/deploy/laptop.yaml"), engine="simulated", model="simulated", batch_size=options.batch_size
    ) as at:
        for seconds in options.seconds:
            rows.append(measure(at, options.calls_ms, seconds, f"makespan-{seconds:g}"))
    print_table("slow and fast workers on one queue", rows)
    words = [f"{each:g}" for each in options.calls_ms], [f"{each:g}" for each in options.seconds]
    command = (
        f"python -m benchmarks.makespan --calls-ms {' '.join(words[0])} --seconds {' '.join(words[1])} "
        f"--batch-size {options.batch_size}"
    )
    print(write("makespan", command, rows, options.out))
    return 0


if __name__ == "__main__":
    sys.exit(main())
