"""What it costs the server to put the runs of a queue into the order of their turns.

    python -m benchmarks.sharing

Two runs lie in one queue, one behind the other. The first look deals their messages; what the second one costs is what
is paid every two seconds from then on. While a step runs, the server answers nobody else: the slowest one is what a
worker may have to wait. Times are the server's own (`SLOWLOG`).
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Iterator
from typing import Any

from benchmarks.record import add_out, print_table, write
from benchmarks.stand import Stand, stand
from contract import keys, sharing
from contract.queue import make_celery, publish

QUESTIONS_PER_MESSAGE = 16
RUNS = ("long-00000000", "other-00000000")


def main() -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, nargs="+", default=[2_000, 6_250, 62_500], help="waiting, both runs")
    parser.add_argument("--short", type=int, default=62, help="messages of the second run, where it is short (62)")
    add_out(parser)
    options = parser.parse_args()
    with stand(engine="simulated", model="simulated") as at:
        rows = [
            row
            for messages in options.messages
            for second in (options.short, messages // 2)
            for row in measure(at, messages - second, second)
        ]
    print_table("milliseconds of the server, of which each step is one", rows)
    sizes = " ".join(map(str, options.messages))
    print(
        write("sharing", f"python -m benchmarks.sharing --messages {sizes} --short {options.short}", rows, options.out)
    )
    return 0


def measure(at: Stand, first: int, second: int) -> Iterator[dict[str, Any]]:
    """A row for each of two looks at a queue where `second` messages wait behind `first`."""
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
        sharing.level(at.ledger, queue)
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
    sys.exit(main())
