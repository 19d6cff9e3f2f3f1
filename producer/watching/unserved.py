"""Diagnoses runs whose queues have no worker, or only workers that cannot serve them or write what they have."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from contract.fleet import BootFailure, WorkerRecord
from contract.keys import index_of, is_score_queue, retriever_name, route
from contract.ledger import Run
from contract.priority import Priority
from contract.wording import number
from producer.watching.progress import duration

if TYPE_CHECKING:
    from producer.broker import Broker

__all__ = [
    "held_up",
    "is_put_off",
    "more_urgent",
    "put_off_by",
    "refusal_of_writes",
    "remedy",
    "start_command",
    "starting_words",
    "time_since",
    "unbooted_by_reason",
    "unbooted_lines",
    "unbooted_of",
    "unserved_queues",
    "vanished_of",
    "vanished_words",
    "waiting_lines",
    "workers_of",
]

COMMAND = "python -m workers up"
#: How commands ask the model that live workers serve.
BY_COMMAND = "enqueue with --model NAME; in a suite, name it under models"


def workers_of(run: Run, live: Sequence[WorkerRecord]) -> list[WorkerRecord]:
    """Return those of the `live` workers that serve one of the run's queues."""
    return [worker for queue in route(run.spec) for worker in live if worker.queue == queue]


def unserved_queues(run: Run, live: Iterable[WorkerRecord]) -> list[str]:
    """Return the queues at which the run needs workers and none of the `live` ones serves."""
    served = {worker.queue for worker in live}
    return [queue for queue in _needed(run) if queue not in served]


def _needed(run: Run) -> Sequence[str]:
    """Return the queues at which the run needs workers; a run that rescores another needs none."""
    return () if run.spec.rescored_from else route(run.spec)


def start_command(unserved: Sequence[str], alive: Iterable[WorkerRecord], how_to_ask: str = BY_COMMAND) -> str:
    """Return the command that starts workers for these queues.

    If the live workers serve other models, also name those, and `how_to_ask` them instead. The run may name the wrong
    model, because of a mistake in `--model` or because the command did not read the workers' deploy file.
    """
    indexes = [index for queue in unserved if (index := index_of(queue))]
    folders = ", ".join(f"FOLDER OF {name}" for name in indexes)
    others = sorted({each.model for each in alive if is_score_queue(each.queue)})
    wanted = [queue.partition(".")[2] for queue in unserved if is_score_queue(queue)]
    # Beside workers of that host, which may be up already.
    alone = "" if wanted else "".join(f" --only {retriever_name(name)}" for name in indexes)
    command = f"{COMMAND}{alone} --set 'indexes=[{folders}]'" if indexes else COMMAND
    if not others or not wanted:
        return command
    return (
        f"{command} with a deploy file that serves {' and '.join(wanted)}"
        f" (live workers serve {', '.join(others)}; to ask theirs, {how_to_ask})"
    )


def remedy(unserved: Sequence[str], live: Sequence[WorkerRecord], broker: Broker) -> str:
    """Return why these queues have no worker or, if merely none was started, how to start one.

    Where Redis refuses writes, no worker can renew its heartbeat, so that all seem to be gone.
    """
    why = refusal_of_writes(live, broker) or starting_words(unserved, broker)
    return why or f"start one: {start_command(unserved, live)}"


def refusal_of_writes(live: Iterable[WorkerRecord], broker: Broker) -> str:
    """Return why Redis refuses writes, and the remedy; an empty string if it takes them.

    At its memory limit it may take small ones, as heartbeats and this trial are, and refuse verdicts: workers say so.
    """
    if refused := broker.why_no_writes():
        return str(refused)
    return next((each.refused for each in live if each.refused), "")


def starting_words(unserved: Sequence[str], broker: Broker) -> str:
    """Return the workers that are starting if each of these queues is about to have one; else an empty string."""
    by_queue = [broker.starting(queue) for queue in unserved]
    if not all(by_queue):
        return ""
    names = sorted({name for of_queue in by_queue for name in of_queue})
    return f"{number(len(names), 'worker')} {'is' if len(names) == 1 else 'are'} starting: {', '.join(names)}"


def put_off_by(run_id: str, workers: Iterable[WorkerRecord]) -> list[str]:
    """Return which of `workers` put the run's questions back into the queue, and why."""
    return [f"{each.name}: {why}" for each in workers if (why := each.puts_off.get(run_id))]


def is_put_off(run: Run, workers: Iterable[WorkerRecord]) -> bool:
    """Whether all of `workers` at one of the run's queues put its questions back."""
    at_queue: defaultdict[str, list[bool]] = defaultdict(list)
    for each in workers:
        at_queue[each.queue].append(run.run_id in each.puts_off)
    return any(map(all, at_queue.values()))


def more_urgent(run: Run, lengths: Mapping[Priority, int]) -> int:
    """Return how many of a queue's messages, given by priority, workers take before any of the run."""
    return sum(n for priority, n in lengths.items() if priority < run.priority)


def waiting_lines(workers: Iterable[WorkerRecord]) -> list[str]:
    """Return which of `workers` cannot start or go on, and what they wait for."""
    return [f"{each.name} waits for {each.waits_for}" for each in workers if each.waits_for]


def held_up(run_id: str, workers: Sequence[WorkerRecord]) -> list[str]:
    """Return which of `workers` put the run off, or wait for something themselves, and why."""
    return [*put_off_by(run_id, workers), *waiting_lines(workers)]


def unbooted_of(run: Run, broker: Broker) -> list[BootFailure]:
    """Return the workers that the run needs but that failed to boot."""
    return [each for queue in _needed(run) for each in broker.boot_failures(queue)]


def unbooted_by_reason(run: Run, broker: Broker) -> dict[str, list[BootFailure]]:
    """Return the same by reason: all workers of a deploy file usually fail for the same one."""
    by_reason: defaultdict[str, list[BootFailure]] = defaultdict(list)
    for each in unbooted_of(run, broker):
        by_reason[each.reason].append(each)
    return by_reason


def unbooted_lines(run: Run, broker: Broker) -> list[str]:
    """Return one line per reason: the workers that failed to boot, and how long ago the last attempt was."""
    return [
        f"{', '.join(each.worker for each in found)}, {time_since(found)} ago: {reason}"
        for reason, found in unbooted_by_reason(run, broker).items()
    ]


def time_since(failures: Iterable[BootFailure]) -> str:
    """Return the time since the last of `failures`: a fleet that was replaced may have failed yesterday."""
    return duration(max(0.0, time.time() - max(each.at for each in failures)))


def vanished_of(run: Run, broker: Broker) -> list[WorkerRecord]:
    """Return the workers that the run needs but that are gone, since it was created, though nobody had drained them."""
    gone = (each for queue in _needed(run) for each in broker.vanished(queue))
    return [each for each in gone if each.seen_at > run.created_at]


def vanished_words(gone: Sequence[WorkerRecord]) -> str:
    """Return which workers are `gone` though nobody had drained them, and what to do; an empty string for none."""
    if not gone:
        return ""
    names = ", ".join(each.name for each in gone)
    return f"{names}, not drained: see whether the host is up; if so, the worker's log, and there: {COMMAND}"
