"""The producer's single interface to queue, audit and fleet, with a Redis and an in-memory implementation."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Protocol

from contract import audit, fair_share, keys
from contract.chunks import chunks
from contract.connection import lua, translating, why_no_writes
from contract.errors import WritesRefused
from contract.fleet import BootFailure, Fleet, WorkerRecord
from contract.ledger import Ledger, RedisLedger, Run
from contract.prefix_order import grouped_again
from contract.priority import Priority
from contract.queue import held_question_ids, make_celery, publish, queue_lengths, queued_runs
from contract.sender_lock import sole_sender, sole_sender_of_free
from contract.settings import Settings

__all__ = ["Broker", "MemoryBroker", "RedisBroker"]


class Broker(Protocol):
    """What the producer needs from the queue and its workers. All methods raise LedgerError."""

    def publish(self, run: Run, question_ids: Iterable[str], priority: Priority) -> int:
        """Send the questions; return the number of messages."""

    def in_messages(self, runs: Sequence[Run]) -> Mapping[str, Collection[str]]:
        """Return run id → the questions of that run in messages, if any; all messages are read, for however many."""

    def send_missing(self, run: Run, priority: Priority, accounted: Collection[str] | None = None) -> tuple[int, int]:
        """Send the unsettled questions that are in no message; return (questions, messages).

        `accounted` are those `in_messages` if they were read a moment ago, while nobody else sends the run.
        """

    def heal(self, run: Run) -> tuple[int, int]:
        """Do the same for a stalled run at its own priority, unless another process is already doing so."""

    def sole_sender(self, run_id: str) -> AbstractContextManager[None]:
        """Hold the exclusive right to send the run's questions, waiting until no other process holds it."""

    def sole_sender_of_free(self, run_ids: Iterable[str]) -> AbstractContextManager[frozenset[str]]:
        """Do the same without waiting for those of several runs that no other process is sending; yield their ids."""

    def go_on(self, run: Run, priority: Priority, accounted: Collection[str] | None = None) -> tuple[int, int]:
        """Resume a paused or cancelled run: send the questions in no message, as `send_missing` does."""

    def looks_stalled(self, run: Run) -> bool:
        """Whether there are unsettled questions that cannot be in any message."""

    def weigh(self, run_id: str, weight: int) -> None:
        """Give the run `weight` turns for each turn of other runs with the same queue and priority."""

    def weight(self, run_id: str) -> int:
        """Return how many turns the run gets for each turn of other runs."""

    def queue_lengths(self, queue: str) -> dict[Priority, int]:
        """Return the number of messages waiting in `queue`, by priority."""

    def messages_of(self, runs: Iterable[Run]) -> Counter[str]:
        """Return the number of waiting messages of each of `runs` that has any; each of their queues is read once."""

    def drop_leftovers(self, queue: str, purging: Collection[str]) -> int:
        """Delete the messages waiting in `queue` if no worker would take and drop them; return their number.

        That is if no live worker serves it, and all of them are of runs that were purged, or are about to be:
        `purging` has the ids of these.
        """

    def in_flight(self, run: Run) -> bool:
        """Whether live workers hold messages of `run`; of a halted run, they finish what they have begun."""

    def all_workers(self) -> list[WorkerRecord]:
        """Return all live workers. Each call reads them anew: what is said together should be of one call."""

    def starting(self, queue: str) -> list[str]:
        """Return the workers that will take messages from `queue` and were started a moment ago."""

    def boot_failures(self, queue: str) -> list[BootFailure]:
        """Return the workers that should take messages from `queue` but failed to boot."""

    def vanished(self, queue: str) -> list[WorkerRecord]:
        """Return the workers of `queue` that are gone, within the last hour, though nobody had drained them."""

    def why_no_writes(self) -> WritesRefused | None:
        """Return why Redis currently refuses a small write, if it does; no worker can renew its heartbeat then."""

    def close(self) -> None:
        """Close the connections."""


class RedisBroker:
    """The implementation backed by Redis."""

    def __init__(self, settings: Settings, ledger: RedisLedger) -> None:
        self._batch_size = settings.question_batch_size
        self._ledger = ledger
        self._app = make_celery(settings)
        self._fleet = Fleet(ledger.client)

    def publish(self, run: Run, question_ids: Iterable[str], priority: Priority) -> int:
        return publish(self._app, keys.route(run.spec)[0], run.run_id, question_ids, self._batch_size, priority)

    def in_messages(self, runs: Sequence[Run]) -> Mapping[str, Collection[str]]:
        return audit.in_messages(self._ledger, runs)

    def send_missing(self, run: Run, priority: Priority, accounted: Collection[str] | None = None) -> tuple[int, int]:
        return audit.send_missing(self._ledger, self._app, run, self._batch_size, priority, accounted)

    def heal(self, run: Run) -> tuple[int, int]:
        return audit.heal(self._ledger, self._app, run, self._batch_size)

    def sole_sender(self, run_id: str) -> AbstractContextManager[None]:
        return sole_sender(self._ledger, run_id)

    def sole_sender_of_free(self, run_ids: Iterable[str]) -> AbstractContextManager[frozenset[str]]:
        return sole_sender_of_free(self._ledger, run_ids)

    def go_on(self, run: Run, priority: Priority, accounted: Collection[str] | None = None) -> tuple[int, int]:
        return audit.go_on(self._ledger, self._app, run, self._batch_size, priority, accounted)

    def looks_stalled(self, run: Run) -> bool:
        return audit.looks_stalled(self._ledger, run)

    def weigh(self, run_id: str, weight: int) -> None:
        fair_share.weigh(self._ledger, run_id, weight)

    def weight(self, run_id: str) -> int:
        return fair_share.weight_of(self._ledger, run_id)

    def queue_lengths(self, queue: str) -> dict[Priority, int]:
        with translating(self._ledger.client):
            return queue_lengths(self._ledger.client, queue)

    def messages_of(self, runs: Iterable[Run]) -> Counter[str]:
        of_queue: defaultdict[str, set[str]] = defaultdict(set)
        for run in runs:
            for queue in keys.route(run.spec):
                of_queue[queue].add(run.run_id)
        found: Counter[str] = Counter()
        with translating(self._ledger.client):
            for queue, run_ids in of_queue.items():
                found.update(queued_runs(self._ledger.client, queue, run_ids))
        return found

    def drop_leftovers(self, queue: str, purging: Collection[str]) -> int:
        if any(each.queue == queue for each in self.all_workers()):
            return 0
        client, lists = self._ledger.client, keys.broker_lists(queue)
        with translating(client):
            pipeline = client.pipeline(transaction=False)
            for name in lists:
                pipeline.llen(name)
                pipeline.lindex(name, 0)
            as_read = ["" if each is None else each for each in pipeline.execute()]
            waiting = queued_runs(client, queue)
            kept = {"", *self._ledger.run_ids()} - {*purging}  # "" has malformed ones
            if not waiting.keys().isdisjoint(kept):
                return 0
            dropped = lua(client, "drop")(lists, as_read)  # not if a run was sent meanwhile
        return waiting.total() if dropped else 0

    def in_flight(self, run: Run) -> bool:
        queues = keys.route(run.spec)
        names = [each.name for each in self.all_workers() if each.queue in queues]
        with translating(self._ledger.client):
            return bool(held_question_ids(self._ledger.client, names, run.run_id))

    def all_workers(self) -> list[WorkerRecord]:
        return self._fleet.alive()

    def starting(self, queue: str) -> list[str]:
        return self._fleet.starting(queue)

    def boot_failures(self, queue: str) -> list[BootFailure]:
        return [each for each in self._fleet.boot_failures() if each.queue == queue]

    def vanished(self, queue: str) -> list[WorkerRecord]:
        return [each for each in self._fleet.missing() if each.queue == queue]

    def why_no_writes(self) -> WritesRefused | None:
        return why_no_writes(self._ledger.client)

    def close(self) -> None:
        self._app.close()
        self._ledger.client.close()


@dataclass
class MemoryBroker:
    """An implementation without Redis or workers: `messages` stay in the list until they are taken out."""

    ledger: Ledger
    batch_size: int = 16
    #: (queue, run id, question ids), most urgent first.
    messages: list[tuple[str, str, list[str]]] = field(default_factory=list)
    #: Run ids of which workers hold messages.
    held: set[str] = field(default_factory=set)
    live: list[WorkerRecord] = field(default_factory=list)
    gone: list[WorkerRecord] = field(default_factory=list)
    #: Workers that are starting, and those that failed to boot: returned for every queue.
    announced: list[str] = field(default_factory=list)
    unbooted: list[BootFailure] = field(default_factory=list)
    weights: dict[str, int] = field(default_factory=dict)
    #: Messages of high priority in every queue, of whatever run.
    urgent: int = 0
    refused: WritesRefused | None = None

    def publish(self, run: Run, question_ids: Iterable[str], priority: Priority) -> int:
        """Put the questions into messages; return the number of messages."""
        new = [(keys.route(run.spec)[0], run.run_id, ids) for ids in chunks(question_ids, self.batch_size)]
        self.messages = [*new, *self.messages] if priority is Priority.HIGH else [*self.messages, *new]
        return len(new)

    def in_messages(self, runs: Sequence[Run]) -> Mapping[str, Collection[str]]:
        wanted = {run.run_id for run in runs}
        found: defaultdict[str, set[str]] = defaultdict(set)
        for _, run_id, ids in self.messages:
            if run_id in wanted:
                found[run_id].update(ids)
        return found

    def send_missing(self, run: Run, priority: Priority, accounted: Collection[str] | None = None) -> tuple[int, int]:
        queued = self.in_messages([run]).get(run.run_id, ()) if accounted is None else accounted
        lost = [each for each in self.ledger.unsettled(run.run_id) if each not in queued]
        return len(lost), self.publish(run, grouped_again(self.ledger, run, lost), priority)

    def heal(self, run: Run) -> tuple[int, int]:
        """Send what is missing unless the run is halted; there is no other process to wait for."""
        return (0, 0) if self.ledger.counts(run.run_id).halted else self.send_missing(run, run.priority)

    def sole_sender(self, run_id: str) -> AbstractContextManager[None]:  # noqa: ARG002 - the same for every run
        """Return at once: there is no other sender."""
        return nullcontext()

    def sole_sender_of_free(self, run_ids: Iterable[str]) -> AbstractContextManager[frozenset[str]]:
        """Return at once with all runs: there is no other sender."""
        return nullcontext(frozenset(run_ids))

    def go_on(self, run: Run, priority: Priority, accounted: Collection[str] | None = None) -> tuple[int, int]:
        self.ledger.resume(run.run_id)
        aside = list(self.ledger.take_aside(run.run_id))
        messages = self.publish(run, grouped_again(self.ledger, run, aside), priority)
        questions, more = self.send_missing(run, priority, None if accounted is None else {*accounted, *aside})
        return len(aside) + questions, messages + more

    def looks_stalled(self, run: Run) -> bool:
        """Whether there are unsettled questions, which workers are to answer, but no messages."""
        counts = self.ledger.counts(run.run_id)
        queued = {queue for queue, _, _ in self.messages} & set(keys.route(run.spec))
        return not queued and counts.todo > 0 and not counts.halted and not run.spec.rescored_from

    def weigh(self, run_id: str, weight: int) -> None:
        """Record the weight; it has no effect here."""
        self.ledger.run(run_id)  # raises UnknownRun
        self.weights[run_id] = weight

    def weight(self, run_id: str) -> int:
        """Return the recorded weight."""
        return self.weights.get(run_id, 1)

    def queue_lengths(self, queue: str) -> dict[Priority, int]:
        """Count the messages as normal ones, but for the `urgent`."""
        normal = sum(each[0] == queue for each in self.messages)
        return {Priority.HIGH: self.urgent, Priority.NORMAL: normal, Priority.LOW: 0}

    def messages_of(self, runs: Iterable[Run]) -> Counter[str]:
        wanted = {run.run_id for run in runs}
        return Counter(run_id for _, run_id, _ in self.messages if run_id in wanted)

    def drop_leftovers(self, queue: str, purging: Collection[str]) -> int:
        """Do the same with `live` workers and `messages`."""
        waiting = [each for each in self.messages if each[0] == queue]
        kept = {*self.ledger.run_ids()} - {*purging}
        if any(each.queue == queue for each in self.live) or any(run_id in kept for _, run_id, _ in waiting):
            return 0
        self.messages = [each for each in self.messages if each[0] != queue]
        return len(waiting)

    def in_flight(self, run: Run) -> bool:
        """Return what the test has set."""
        return run.run_id in self.held

    def all_workers(self) -> list[WorkerRecord]:
        return list(self.live)

    def starting(self, queue: str) -> list[str]:  # noqa: ARG002 - the same for every queue
        """Return what the test has set."""
        return list(self.announced)

    def boot_failures(self, queue: str) -> list[BootFailure]:  # noqa: ARG002 - the same for every queue
        """Return what the test has set."""
        return list(self.unbooted)

    def vanished(self, queue: str) -> list[WorkerRecord]:
        return [each for each in self.gone if each.queue == queue]

    def why_no_writes(self) -> WritesRefused | None:
        """Return what the test has set."""
        return self.refused

    def close(self) -> None:
        """Do nothing: there are no connections."""
