"""What does monitoring cost? Task events for Flower and metrics for Prometheus, relative to the whole path of a
question.

The whole path is that of `benchmarks.overhead`, around a zero-time engine: enqueue, score, export, in CPU time per
question. Events and metrics of as many batches are then produced in this process, with the same code and a real server,
and measured in CPU time of the producing thread; they are part of the cost of `score`. Medians of `ROUNDS` interleaved
rounds.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

from celery.worker.request import Request

from benchmarks.command import Parser, run
from benchmarks.overhead import SETTINGS, enough, measure
from benchmarks.record import print_table, write
from benchmarks.stand import Stand, stand
from contract import Outcome, Verdict
from contract.keys import score_queue
from contract.priority import Priority
from contract.queue import MESSAGE_VERSION, make_celery, task_name
from workers.messages.batch import Batch, HeldMessage, Settlement
from workers.monitoring.events import BatchEvents
from workers.monitoring.metrics import WorkerMetrics

ROUNDS = 5
BATCHES = 40


def main() -> None:
    parser = Parser(__doc__)
    parser.option("--questions", enough, 50_000, "questions of the whole path")
    options = parser.parse_args()
    with stand(**SETTINGS) as at:
        parts = {each["part"]: each for each in measure(at, options.questions)}
        whole_us = sum(parts[part]["cpu_us_per_question"] for part in ("enqueue", "score", "export"))
        costs = watched(at)
    rows = [
        {"what": name, "cpu_us_per_question": each, "share_of_whole_way": each / whole_us}
        for name, each in {**costs, "the whole way": whole_us}.items()
    ]
    print_table("Monitoring", rows)
    print(write("watching", rows, options))


def watched(at: Stand) -> dict[str, float]:
    """Return the CPU time per question, in µs, of events and of metrics."""
    app, queue = make_celery(at.settings), score_queue(at.settings.served_model)
    events = BatchEvents(app, "w0@bench", task_name(queue))
    metrics = WorkerMetrics(at.settings, "w0@bench", queue)
    batches = [batch(at, number) for number in range(BATCHES)]
    verdicts = [verdict(number) for number in range(at.settings.batch_size)]

    def send(each: Batch) -> None:
        events.started(each)
        events.ended(each)

    def count(each: Batch) -> None:
        metrics.committed(verdicts)
        metrics.batch_ended(each)

    send(batches[0])  # connects
    spent: dict[str, list[float]] = {"task events": [], "metrics": []}
    for _ in range(ROUNDS):
        for name, do in (("task events", send), ("metrics", count)):
            spent[name].append(cpu_us(do, batches) / (BATCHES * at.settings.batch_size))
    app.close()
    return {name: statistics.median(each) for name, each in spent.items()}


def cpu_us(do: Callable[[Batch], None], batches: list[Batch]) -> float:
    """Return the CPU time of this thread for `do` on each of `batches`."""
    began = time.thread_time()
    for each in batches:
        do(each)
    return 1e6 * (time.thread_time() - began)


def batch(at: Stand, number: int) -> Batch:
    """Return a full batch of messages, as the aggregator dispatches it."""
    size = at.settings.question_batch_size
    held = [message(f"{number}-{at_}", [f"q{n}" for n in range(size)]) for at_ in range(at.settings.batch_size // size)]
    return Batch(number, held, questions=at.settings.batch_size, flush="size", waited_s=0.1)


def message(name: str, ids: list[str]) -> HeldMessage:
    """Return one settled message."""
    request: Any = SimpleNamespace(id=name, root_id=name, delivery_info={"redelivered": False})
    return HeldMessage(
        request=cast(Request, request),
        run_id="run-12345678",
        question_ids=ids,
        published_at=0.0,
        priority=int(Priority.NORMAL),
        version=MESSAGE_VERSION,
        arrived_at=time.time(),
        settlement=Settlement.ACKNOWLEDGE,
        summary=f"{len(ids)} correct",
    )


def verdict(number: int) -> Verdict:
    """Return the verdict of a question."""
    return Verdict(question_id=f"q{number}", outcome=Outcome.CORRECT, latency_ms=5.0, queued_ms=3.0, prompt_tokens=40)


if __name__ == "__main__":
    run(main)
