"""Status of a run: its counts so far, its queues, and the workers that serve it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from contract import keys
from contract.engine_info import EngineUsed
from contract.fleet import WorkerRecord, WorkerState
from contract.ledger import Counts, Run
from contract.priority import Priority
from contract.verdict import Outcome
from contract.wording import number
from producer.engine_differences import any_simulated, engine_lines
from producer.output import Lines, optional_line
from producer.result_lines import result_lines
from producer.runs.asked import how_asked
from producer.stats import Tally
from producer.watching.failures import retry
from producer.watching.unserved import (
    more_urgent,
    put_off_by,
    refusal_of_writes,
    remedy,
    unbooted_lines,
    unbooted_of,
    unserved_queues,
    vanished_of,
    vanished_words,
    waiting_lines,
    workers_of,
)

if TYPE_CHECKING:
    from producer.broker import Broker

__all__ = [
    "priority_lines",
    "queue_lines",
    "queues_json",
    "status_json",
    "status_lines",
    "unwritten",
    "unwritten_of",
    "workers_line",
    "writer_of",
]


def status_json(run: Run, counts: Counts, broker: Broker, used: Sequence[EngineUsed]) -> dict[str, Any]:
    """Return the content of `status --json`; `used` are the engines that have answered the run."""
    live = broker.all_workers()
    workers = workers_of(run, live)
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
        "unwritten": counts.unwritten,
        "chance": run.chance,
        "priority": run.priority.name.lower(),
        "weight": broker.weight(run.run_id),
        "queues": queues_json(run, broker),
        "workers": [each.model_dump(mode="json", exclude={"engine"}) for each in workers],
        "simulated": any_simulated(used),
        "refused": None if counts.over else refusal_of_writes(live, broker) or None,
        "unbooted": [each.model_dump(mode="json") for each in unbooted_of(run, broker)],
        "vanished": [each.name for each in vanished_of(run, broker)],
    }


def status_lines(run: Run, counts: Counts, broker: Broker, used: Sequence[EngineUsed]) -> Lines:
    """Return the output lines of `status`; `used` are the engines that have answered the run."""
    tally = Tally.of_counts(counts, run.without_key)
    failed = "`export` says why, and `requeue --failed` asks them again once that is fixed"
    if run.spec.rescored_from:
        failed = f"`export` says why; once that is fixed, retry with: {retry(run)}"
    more = [("failed", failed)] if counts.of(Outcome.FAILED) else []
    first, *results = result_lines(run, tally, counts.standing, more=more)
    done = 1000 * counts.settled // counts.total / 10  # rounded down: 100 % are all
    weight, live = broker.weight(run.run_id), broker.all_workers()
    made_up = "the simulated engine made up answers, so the figures are meaningless"
    return [
        first,
        ("asked", f"{run.source} · {how_asked(run.spec)}"),
        ("settled", f"{counts.settled:,} of {counts.total:,} ({done:.1f} %)"),
        *results,
        *([("unwritten", unwritten(run, counts))] if unwritten_of(run, counts) else []),
        *queue_lines(run, broker),
        *priority_lines(run),
        *([("weight", f"{weight} turns for each turn of other runs")] if weight > 1 else []),
        ("workers", workers_line(run, counts.over, live, broker)),
        *([] if counts.over else _hindered(run, live, broker)),
        *([("simulated", made_up)] if any_simulated(used) else []),
        *engine_lines(run, used),
    ]


def priority_lines(run: Run) -> Lines:
    """Return the run's priority, unless it is the usual one."""
    place = {Priority.HIGH: "before all runs of lower priority", Priority.LOW: "behind all runs of higher priority"}
    return [("priority", f"{run.priority.name.lower()}: {place[run.priority]}")] if run.priority in place else []


def _hindered(run: Run, live: Sequence[WorkerRecord], broker: Broker) -> Lines:
    """Return why live workers do not score the run, and why other workers failed to boot."""
    workers = workers_of(run, live)
    refused = refusal_of_writes(live, broker)
    return [
        *optional_line("refused", "" if unserved_queues(run, live) else refused),  # else the workers' line says it
        *[("put off", each) for each in put_off_by(run.run_id, workers)],
        *[("not ready", each) for each in waiting_lines(workers)],
        *[("not booted", each) for each in unbooted_lines(run, broker)],
        *optional_line("vanished", "" if refused else vanished_words(vanished_of(run, broker))),
    ]


def unwritten(run: Run, counts: Counts) -> str:
    """Return a warning that questions of a run are missing from the ledger, and what to do."""
    old = run.spec.rescored_from
    which = f"{unwritten_of(run, counts):,} of {number(counts.total, 'question')}"
    missing = f"{which} not {'read again' if old else 'in the ledger'}"
    again = "run it again to continue" + (f" (if {old} was purged, purge this, too)" if old else "")
    return f"{missing}: unless {writer_of(run)} is still writing them, it was interrupted; {again}"


def unwritten_of(run: Run, counts: Counts) -> int:
    """Return how many questions the run's command has not written; of a rescoring, which asks nobody, with a verdict.

    That one was interrupted between the two, too: nobody but its command settles its questions.
    """
    return counts.total - counts.settled if run.spec.rescored_from else counts.unwritten


def writer_of(run: Run) -> str:
    """Return the command that writes the run's questions into the ledger, or those that may."""
    old = run.spec.rescored_from
    return f"`python -m workers rescore {old}`" if old else "the `enqueue`, `suite` or `load` that made it"


def queues_json(run: Run, broker: Broker) -> dict[str, int]:
    """Return the number of messages waiting in each of the run's queues."""
    return {queue: sum(broker.queue_lengths(queue).values()) for queue in keys.route(run.spec)}


def queue_lines(run: Run, broker: Broker) -> Lines:
    """Return `queues_json` as output lines, with how many of the messages are of a higher priority than the run."""
    return [("queue", f"{queue}: {_waiting(run, broker.queue_lengths(queue))}") for queue in keys.route(run.spec)]


def _waiting(run: Run, lengths: Mapping[Priority, int]) -> str:
    ahead = more_urgent(run, lengths)
    return f"{number(sum(lengths.values()), 'message')} waiting" + (f", {ahead:,} of higher priority" if ahead else "")


def workers_line(run: Run, over: bool, live: Sequence[WorkerRecord], broker: Broker) -> str:
    """Return which of the `live` workers are the run's, and what to do if one of its queues has none.

    A run that is `over` needs none.
    """
    workers = workers_of(run, live)
    none = "none that serves it" if live else "none live"
    names = f"{len(workers)} live: {', '.join(map(_named, workers))}" if workers else none
    if any_simulated(workers):
        names += "; the engine is simulated, its answers are meaningless"
    unserved = unserved_queues(run, live)
    if over or not unserved:
        return names
    which = f"no worker serves {' and '.join(unserved)}; " if workers else ""
    return f"{names}; {which}{remedy(unserved, live, broker)}"


def _named(worker: WorkerRecord) -> str:
    """Return its name, with its state unless it is ready: a large model takes minutes to boot."""
    return worker.name if worker.state is WorkerState.READY else f"{worker.name} ({worker.state})"
