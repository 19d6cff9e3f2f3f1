"""Do slow and fast workers of one queue finish together?

Simulated engines whose calls take a fixed time each, some longer than others, share one run. The ideal is the number of
questions divided by the sum of the engines' own rates (`batches_in_flight` batches per call time): no worker is idle,
calls follow each other without gaps, and no worker waits for another at the end. The makespan is from the start of the
first call to the last verdict. It cannot be shorter than the slowest engine's last call, which weighs more in a short
run.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from benchmarks.asking import require_whole_messages, speed_settings
from benchmarks.command import Parser, above_zero, positive, run
from benchmarks.made_up import made_up_file
from benchmarks.record import print_table, write
from benchmarks.stand import DEPLOY, Stand, asked_between, settle, stand, verdicts, worker

POLL_S = 0.2


def measure(at: Stand, calls_ms: list[float], seconds: float, name: str) -> dict[str, Any]:
    """Return a row: a run that would ideally take so many seconds."""
    batch, in_flight = at.settings.batch_size, at.settings.batches_in_flight
    rate = sum(in_flight * batch / (call_ms / 1000) for call_ms in calls_ms)
    questions = max(1, round(rate * seconds / batch)) * batch
    with ExitStack() as stack:
        for number, call_ms in enumerate(calls_ms):
            stack.enter_context(worker(at, f"{name}-{number}", simulated={"call_ms": call_ms}))
        file = made_up_file(at.folder / f"{name}.jsonl", questions)
        run_id = settle(at, file, "--run", name, poll_s=POLL_S).said["run_id"]
    found = verdicts(at, run_id)
    began_at, ended_at = asked_between(found)
    last_at = {f"{name}-{number}@bench": began_at for number in range(len(calls_ms))}
    for each in found:
        last_at[each.worker] = max(last_at[each.worker], each.settled_at)
    makespan_s, ideal_s = ended_at - began_at, questions / rate
    return {
        "calls_ms": " ".join(f"{each:g}" for each in calls_ms),
        "questions": questions,
        "ideal_s": ideal_s,
        "makespan_s": makespan_s,
        "over_ideal": makespan_s / ideal_s - 1,
        "idle_at_the_end_s": " ".join(f"{ended_at - each:.2f}" for each in last_at.values()),
    }


def main() -> None:
    parser = Parser(__doc__)
    parser.option("--calls-ms", above_zero, (2000.0, 1000.0, 500.0), "duration of a call, one per worker", repeats=True)
    parser.option("--seconds", above_zero, (15.0, 45.0), "ideal duration of each run")
    parser.option("--batch-size", positive, 32, "questions per call")
    options = parser.parse_args()
    with stand(DEPLOY, engine="simulated", model="simulated", batch_size=options.batch_size) as at:
        require_whole_messages(parser, at.settings)
        rows = [measure(at, options.calls_ms, seconds, f"makespan-{seconds:g}") for seconds in options.seconds]
    print_table("slow and fast workers on one queue", rows)
    print(write("makespan", rows, options, settings=speed_settings(at.settings)))


if __name__ == "__main__":
    run(main)
