"""How does the time per request change when many clients ask at once?

One real worker, and that many clients, each of which sends a question in its own message, waits for the verdict in the
ledger, and sends the next. Time per request is wall time divided by requests; it must fall as clients are added, until
the engine is full.
Latency is the time that a client waits, including `batch_timeout`.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from itertools import pairwise
from typing import Any

from benchmarks.asking import Asking, add_asking, asking_of, chosen_model, pin
from benchmarks.command import Parser, positive, run
from benchmarks.record import plot, print_table, write
from benchmarks.stand import Stand, look_after, settled, stand, worker
from contract import keys
from contract.ledger import Run
from contract.priority import Priority
from contract.question import Question
from producer.broker import RedisBroker

#: Interval of looks for verdicts, for each client that waits, and at most: all of them look at once, and on a CPU that
#: costs the engine time. At 200 clients, looks every 2 ms took a tenth of its speed.
POLL_S, LONGEST_POLL_S = 0.002, 0.05
#: Ratio of times up to which they count as even.
EVEN = 1.02
#: Interval of checks that the worker is alive.
LOOK_S = 1.0


def main() -> None:
    parser = Parser(__doc__)
    add_asking(parser)
    parser.option("--levels", positive, (1, 5, 10, 50, 200), "numbers of clients")
    parser.option("--requests", positive, 16, "minimum number of requests per level")
    options = parser.parse_args()
    with stand(options.config, **chosen_model(options)) as at:
        asking = asking_of(options, at.settings)
        pin(at)
        with worker(at):
            warm_up(at, asking)
            rows = [clients(at, asking, level, max(options.requests, level)) for level in options.levels]
    print_table(f"Clients waiting for their verdicts, {asking.shown}", rows)
    print(f"Time per request falls, or stays within 2 % once the engine is full: {'yes' if falls(rows) else 'no'}")
    path = write("concurrency", rows, options, **asking.recorded(at.settings))
    lines = {"wall time per request": [(each["clients"], each["s_per_request"]) for each in rows]}
    print(path, plot(path, "Time per request by clients", "clients", "s", lines, log_x=True))


def falls(rows: Iterable[Mapping[str, Any]]) -> bool:
    """Return whether no row has a longer time per request than that with the next fewer clients, but for noise."""
    times_s = [each["s_per_request"] for each in sorted(rows, key=lambda row: int(row["clients"]))]
    return all(more < EVEN * fewer for fewer, more in pairwise(times_s))


def warm_up(at: Stand, asking: Asking, mark: str = "") -> None:
    """Send some requests, as the first calls are slow; `mark` distinguishes this worker's run from others."""
    for level in (1, 2, 8):
        clients(at, asking, level, 8, f"to warm up, {mark}")


def clients(at: Stand, asking: Asking, level: int, requests: int, mark: str = "") -> dict[str, Any]:
    """Send `requests` requests from `level` clients."""
    asked, questions = opened(at, asking, f"{mark}{level} clients", requests)
    todo, waiting = keys.RunKeys(asked.run_id).todo, iter(questions)
    sent: dict[str, float] = {}
    latencies: list[float] = []
    with closing(RedisBroker(at.settings, at.ledger)) as broker:
        started = time.monotonic()
        look_at = started
        while len(latencies) < requests:
            if time.monotonic() > look_at:
                look_after(at)
                look_at += LOOK_S
            while len(sent) < level and (question := next(waiting, None)):
                sent[question.id] = time.monotonic()
                send(at, broker, asked, question)
            time.sleep(min(POLL_S * len(sent), LONGEST_POLL_S))
            ids = list(sent)
            for question_id, is_open in zip(ids, at.ledger.client.smismember(todo, ids), strict=True):
                if not is_open:
                    latencies.append(time.monotonic() - sent.pop(question_id))
        wall_s = time.monotonic() - started
    settled(at, asked.run_id)  # none has failed
    return {
        "clients": level,
        "requests": requests,
        "s_per_request": wall_s / requests,
        "requests_per_s": requests / wall_s,
        "mean_latency_s": statistics.mean(latencies),
        "slowest_latency_s": max(latencies),
    }


def opened(at: Stand, asking: Asking, mark: str, wanted: int) -> tuple[Run, list[Question]]:
    """Open a run of `wanted` questions, the file's repeated under new ids; none is written yet."""
    planned = asking.planned(at.settings, mark)
    questions = repeated(list(planned.survey.questions()), wanted)
    found = planned.run().model_copy(update={"questions": wanted})
    at.ledger.open_run(found)
    return found, questions


def repeated(file: Sequence[Question], wanted: int) -> list[Question]:
    """Return `wanted` questions: those of `file` repeated, each time with a different prefix.

    A question repeated verbatim would be in the prefix cache, and cost next to nothing.
    """
    found = []
    for number in range(wanted):
        turn, place = divmod(number, len(file))
        text = f"({turn + 1}) {file[place].question}" if turn else file[place].question
        found.append(file[place].model_copy(update={"id": f"{number}", "question": text}))
    return found


def send(at: Stand, broker: RedisBroker, asked: Run, question: Question) -> None:
    """Write one question and send it. Until the last one is written, no audit considers the others lost."""
    at.ledger.add_questions(asked.run_id, [question])
    broker.publish(asked, [question.id], Priority.NORMAL)


if __name__ == "__main__":
    run(main)
