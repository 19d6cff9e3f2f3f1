"""Status of a run: its counts so far, its queues, and the workers that serve it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from contract import keys
from contract.engine_info import EngineUsed, is_simulated
from contract.fleet import BootFailure, WorkerRecord, WorkerState
from contract.ledger import Counts, Run
from contract.priority import Priority
from contract.wording import number
from producer.output import Lines
from producer.result_lines import result_lines
from producer.runs.asked import how_asked
from producer.stats import Tally
from producer.watching.unserved import (
    put_off_by,
    refusal_of_writes,
    start_workers,
    unbooted_lines,
    waiting_lines,
    why_unserved,
)

if TYPE_CHECKING:
    from producer.broker import Broker

__all__ = [
    "priority_lines",
    "queue_lines",
    "queues_json",
    "status_json",
    "status_lines",
    "unbooted_of",
    "unwritten",
    "workers_line",
    "workers_of",
    "writer_of",
]


def status_json(run: Run, counts: Counts, broker: Broker, used: Sequence[EngineUsed]) -> dict[str, Any]:
    """Return the content of `status --json`; `used` are the engines that have answered the run."""
    workers = workers_of(run, broker.all_workers())
    return {
        "run_id": run.run_id,
        "source": run.source,
        "model": run.spec.model,
        "mode": run.spec.mode.value,
        "prompt": run.spec.prompt.name,
        "prompt_version": run.spec.prompt.version,
        "chat_template": run.spec.chat_template.value,
        "state": counts.standing,
        **Tally.of_counts(counts, run.without_key).to_json(),
        "finished": counts.finished,
        "chance": run.chance,
        "priority": run.priority.name.lower(),
        "weight": broker.weight(run.run_id),
        "queues": queues_json(run, broker),
        "workers": [each.model_dump(mode="json", exclude={"engine"}) for each in workers],
        "simulated": any(is_simulated(each.engine) for each in used),
        "unbooted": [each.model_dump(mode="json") for each in unbooted_of(run, broker)],
    }


def status_lines(run: Run, counts: Counts, broker: Broker) -> Lines:
    """Return the output lines of `status`."""
    tally = Tally.of_counts(counts, run.without_key)
    lines = result_lines(run, tally, counts.standing)
    if counts.unwritten:
        lines.append(("unwritten", unwritten(run, counts)))
    done = 1000 * counts.settled // counts.total / 10  # rounded down: 100 % are all
    lines[1:1] = [
        ("asked", f"{run.source} · {how_asked(run.spec)}"),
        ("settled", f"{counts.settled:,} of {counts.total:,} ({done:.1f} %)"),
    ]
    weight = broker.weight(run.run_id)
    return [
        *lines,
        *queue_lines(run, broker),
        *priority_lines(run),
        *([("weight", f"{weight} turns for each turn of other runs")] if weight > 1 else []),
        ("workers", workers_line(run, counts.finished, broker)),
        *([] if counts.finished else _hindered(run, broker)),
    ]


def priority_lines(run: Run) -> Lines:
    """Return the run's priority, unless it is the usual one."""
    place = {Priority.HIGH: "before all runs of lower priority", Priority.LOW: "behind all runs of higher priority"}
    return [("priority", f"{run.priority.name.lower()}: {place[run.priority]}")] if run.priority in place else []


def _hindered(run: Run, broker: Broker) -> Lines:
    """Return why live workers do not score the run, and why other workers failed to boot."""
    workers = workers_of(run, broker.all_workers())
    refused = "" if _unserved(run, broker) else refusal_of_writes(broker)  # else the line of the workers says it
    return [
        *([("refused", refused)] if refused else []),
        *[("put off", each) for each in put_off_by(run.run_id, workers)],
        *[("not ready", each) for each in waiting_lines(workers)],
        *[("not booted", each) for each in unbooted_lines(unbooted_of(run, broker))],
    ]


def unwritten(run: Run, counts: Counts) -> str:
    """Return a warning that questions of a run are missing from the ledger, and what to do."""
    missing = f"{counts.unwritten:,} of {number(counts.total, 'question')} not in the ledger"
    return f"{missing}: unless {writer_of(run)} is still writing them, it was interrupted; run it again to continue"


def writer_of(run: Run) -> str:
    """Return the command that writes the run's questions into the ledger."""
    return f"`python -m workers rescore {run.spec.rescored_from}`" if run.spec.rescored_from else "`enqueue`"


def queues_json(run: Run, broker: Broker) -> dict[str, int]:
    """Return the number of messages waiting in each of the run's queues."""
    return {queue: broker.queue_length(queue) for queue in keys.route(run.spec)}


def queue_lines(run: Run, broker: Broker) -> Lines:
    """Return `queues_json` as output lines."""
    return [("queue", f"{queue}: {number(n, 'message')} waiting") for queue, n in queues_json(run, broker).items()]


def workers_line(run: Run, finished: bool, broker: Broker) -> str:
    """Return the live workers of the run, and what to do if one of its queues has none."""
    live = workers_of(run, broker.all_workers())
    names = f"{len(live)} live: {', '.join(map(_named, live))}" if live else "none live"
    if any(is_simulated(each.engine) for each in live):
        names += "; the engine is simulated, its answers are meaningless"
    unserved = _unserved(run, broker)
    if finished or not unserved:
        return names
    if why := why_unserved(unserved, broker):
        return f"{names}; {why}"
    remedy = start_workers(unserved, broker.all_workers())
    return (
        f"{names}; no worker serves {' and '.join(unserved)}, start one: {remedy}"
        if live
        else f"{names}; start one: {remedy}"
    )


def _unserved(run: Run, broker: Broker) -> list[str]:
    return [queue for queue in keys.route(run.spec) if not broker.workers(queue)]


def _named(worker: WorkerRecord) -> str:
    """Return its name, with its state unless it is ready: a large model takes minutes to boot."""
    return worker.name if worker.state is WorkerState.READY else f"{worker.name} ({worker.state})"


def workers_of(run: Run, live: Sequence[WorkerRecord]) -> list[WorkerRecord]:
    """Return those of the `live` workers that serve one of the run's queues."""
    return [worker for queue in keys.route(run.spec) for worker in live if worker.queue == queue]


def unbooted_of(run: Run, broker: Broker) -> list[BootFailure]:
    """Return the workers that should serve one of the run's queues but failed to boot."""
    return [each for queue in keys.route(run.spec) for each in broker.boot_failures(queue)]
