"""What does it cost the server to interleave the runs of a queue fairly?

Two runs are in one queue, one behind the other. The first pass distributes their messages; the cost of the second one
recurs every two seconds from then on. While a step runs, the server answers no other client, so the slowest step is how
long a worker may have to wait. Times are the server's own (`SLOWLOG`).
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from typing import Any

from benchmarks.command import Parser, positive, run
from benchmarks.record import print_table, write
from benchmarks.stand import Stand, stand
from contract import fair_share, keys
from contract.queue import make_celery, publish

QUESTIONS_PER_MESSAGE = 16
RUNS = ("long-00000000", "other-00000000")


def main() -> None:
    parser = Parser(__doc__)
    parser.option("--messages", positive, (2_000, 6_250, 62_500), "waiting messages of both runs")
    parser.option("--short", positive, 62, "messages of the second run, in rows where it is short")
    options = parser.parse_args()
    if options.short >= min(options.messages):
        parser.error("--short: must be less than the messages of both runs (--messages)")
    with stand(engine="simulated", model="simulated") as at:
        rows = [
            row
            for messages in options.messages
            for second in (options.short, messages // 2)
            for row in measure(at, messages - second, second)
        ]
    print_table("Milliseconds of the server, which answers no other client during a step", rows)
    print(write("sharing", rows, options))


def measure(at: Stand, first: int, second: int) -> Iterator[dict[str, Any]]:
    """Yield a row for each of two passes over a queue in which `second` messages wait behind `first`."""
    client, queue = at.ledger.client, keys.score_queue("simulated")
    client.flushdb()
    client.sadd(keys.open_runs(), *RUNS)
    for run_id, messages in zip(RUNS, (first, second), strict=True):
        ids = (f"q{number:07}" for number in range(messages * QUESTIONS_PER_MESSAGE))
        publish(make_celery(at.settings), queue, run_id, ids, QUESTIONS_PER_MESSAGE)
    client.config_set("slowlog-log-slower-than", 0)
    client.config_set("slowlog-max-len", 10_000)
    for look in ("first", "second"):
        client.slowlog_reset()
        fair_share.level(at.ledger, queue)
        entries = [(each["command"], each["duration"] / 1000) for each in client.slowlog_get(10_000)]
        of_list = keys.broker_lists(queue)[2].encode()
        steps_ms = [took_ms for command, took_ms in entries if command.startswith(b"EVALSHA") and of_list in command]
        yield {
            "messages": first + second,
            "of the second run": second,
            "look": look,
            "steps": len(steps_ms),
            "step_ms": statistics.median(steps_ms),
            "slowest_step_ms": max(steps_ms),
            "all_ms": sum(steps_ms),
        }


if __name__ == "__main__":
    run(main)
