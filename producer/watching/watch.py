"""Watches a run until all its questions are settled, and recovers it if it stalls."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from contract import keys
from contract.errors import LedgerError, UnknownRun, WritesRefused
from contract.fleet import WorkerRecord
from contract.ledger import Counts, Ledger, Run, RunState
from contract.wording import number
from producer.watching.outage import Clock, Outage
from producer.watching.pace import Pace
from producer.watching.progress import Snapshot
from producer.watching.screens import Screen
from producer.watching.status import unbooted_of, writer_of
from producer.watching.unserved import (
    put_off_by,
    refusal_of_writes,
    since,
    start_workers,
    starting_words,
    unbooted_by_reason,
    unserved_queues,
    waiting_lines,
    workers_of,
)
from producer.watching.worker_status import AT_WORK, Member, RunWorkers

if TYPE_CHECKING:
    from producer.broker import Broker

__all__ = ["TICK_S", "Watcher", "watch"]

#: Polling interval of the ledger, in seconds.
TICK_S = 0.5
#: Interval between checks for a stall. Only two positive checks in a row count, since a message on its way to a worker
#: is briefly neither in the queue nor with a worker.
STALL_EVERY_S = 2.0
#: How long no worker may be present before a message says so, and the interval between such messages.
NO_WORKER_AFTER_S, NO_WORKER_EVERY_S = 10.0, 60.0
#: How long nothing may be settled before it is looked every few seconds whether Redis refuses writes.
UNSETTLED_AFTER_S, REFUSED_EVERY_S = 10.0, 2.0
#: How long question bodies may be missing without progress before the `enqueue` writing them is considered dead.
INCOMPLETE_AFTER_S = 30.0


def watch(watcher: Watcher, *, clock: Clock | None = None) -> Counts:
    """Show the watcher's run until it is settled or cancelled; return its final counts.

    Lost questions are sent again. A paused run is waited for, and of a cancelled one, the questions in flight.

    Tolerates a Redis that is temporarily unreachable or refuses writes. Raises LedgerError if the run is purged in the
    meantime, or if questions are missing and no process is writing them.
    """
    clock = clock or Clock()
    outage = Outage(watcher.screen.say, clock)
    with watcher.screen:
        while True:
            with outage.waited_for():
                seen = watcher.look()
                watcher.attend(clock.now(), seen)
                if seen.over:
                    return seen.counts
            clock.sleep(TICK_S)


@dataclass(frozen=True, slots=True)
class Seen:
    """What the ledger, the queues and the workers have of a run at one moment."""

    counts: Counts
    #: All live workers, of whatever queue.
    live: Sequence[WorkerRecord]
    #: Messages waiting in the run's queues.
    queued: int
    #: Whether workers may still be answering questions of the run, though it is cancelled.
    in_flight: bool

    @property
    def over(self) -> bool:
        """Whether there is nothing to wait for."""
        return self.counts.over and not self.in_flight


@dataclass
class Watcher:
    """Polls one run: shows its status and takes care of what it needs."""

    ledger: Ledger
    broker: Broker
    run: Run
    screen: Screen
    #: Whether the run goes on, as last seen.
    state: RunState = field(default=RunState.RUNNING, init=False)
    _settled: int = field(default=0, init=False)
    _pace: Pace = field(default_factory=Pace, init=False)
    _crew: RunWorkers = field(default_factory=RunWorkers, init=False)
    _no_worker_since: float | None = field(default=None, init=False)
    _no_worker_next: float = field(default=0.0, init=False)
    #: Settled questions when Redis was last seen to take verdicts, and when to look again.
    _written: int = field(default=-1, init=False)
    _refused_look: float = field(default=0.0, init=False)
    #: Whether Redis refuses writes, and before when this is not said again.
    _refuses: bool = field(default=False, init=False)
    _refused_next: float = field(default=0.0, init=False)
    _stall_next: float = field(default=0.0, init=False)
    _stalls: int = field(default=0, init=False)
    #: Last counts of a run whose questions are not all written, and since when they are unchanged.
    _incomplete: Counts | None = field(default=None, init=False)
    _incomplete_since: float = field(default=0.0, init=False)
    #: Messages already shown about workers that put the run off, or cannot start yet.
    _put_off: list[str] = field(default_factory=list, init=False)
    #: Whether questions in flight of a cancelled run are waited for.
    _awaits: bool = field(default=False, init=False)
    #: Boot failure reasons already shown.
    _unbooted: set[str] = field(default_factory=set, init=False)

    def look(self) -> Seen:
        """Return how the run stands."""
        with self._told_if_gone():
            counts = self.ledger.counts(self.run.run_id)
        live = self.broker.all_workers()
        in_flight = counts.over and not counts.finished and self.broker.in_flight(self.run)
        return Seen(counts, live, sum(map(self.broker.queue_length, keys.route(self.run.spec))), in_flight)

    @contextmanager
    def _told_if_gone(self) -> Iterator[None]:
        try:
            yield
        except UnknownRun as trouble:
            total, settled = self.run.questions, self._settled
            raise UnknownRun(
                f"{self.run.run_id} is no longer in the ledger; last seen with {settled:,} of "
                f"{number(total, 'question')} settled.",
                hint="The run was purged, or Redis lost its data: it was restarted without appendonly, or replaced by "
                "an empty server. Enqueue the same file again to recreate the run from the start.",
            ) from trouble

    def attend(self, now: float, seen: Seen) -> None:
        """Show what was `seen` just now, and do what the run needs."""
        counts, live = seen.counts, seen.live
        self._settled = counts.settled
        there, unserved = workers_of(self.run, live), unserved_queues(self.run, live)
        scores = keys.route(self.run.spec)[-1]
        working = any(each.state in AT_WORK for each in there if each.queue == scores)
        self._pace.observe(now, counts.settled, working=working, halted=counts.halted)
        crew = self._crew.look(there)
        self.screen.show(self._snapshot(seen, crew, served=not unserved))
        if not counts.finished:
            self._check_halt(counts)
            self._check_in_flight(in_flight=seen.in_flight)
        if not counts.finished and not counts.halted:
            self._check_refused(now, counts.settled, live)
            self._check_workers(now, unserved, live)
            self._check_put_off(there)
            self._check_unbooted()
            with self._told_if_gone():
                self._check_stall(now)
            self._check_missing(now, counts)

    def _snapshot(self, seen: Seen, crew: Sequence[Member], *, served: bool) -> Snapshot:
        return Snapshot(
            self.run.run_id,
            seen.counts,
            self._pace.rates,
            crew,
            seen.queued,
            served,
            self.run.without_key,
            seen.in_flight,
        )

    def _check_halt(self, counts: Counts) -> None:
        if counts.state is not self.state:
            resume = f"Resume it with: python -m producer resume {self.run.run_id}"
            resumed = f"{self.run.run_id} has been resumed."
            self.screen.say(f"The run is {counts.state}. {resume}" if counts.halted else resumed)
        self.state = counts.state

    def _check_in_flight(self, *, in_flight: bool) -> None:
        if in_flight and not self._awaits:
            self.screen.say(f"{self.run.run_id}: waiting for the questions that workers have begun.")
        self._awaits = in_flight

    def _check_refused(self, now: float, settled: int, live: Sequence[WorkerRecord]) -> None:
        if settled != self._written:
            self._written, self._refuses, self._refused_look = settled, False, now + UNSETTLED_AFTER_S
        if now >= self._refused_look:
            self._refused_look = now + REFUSED_EVERY_S
            why = refusal_of_writes(live, self.broker)
            self._refuses = bool(why)
            if why:
                self._say_refused(now, why)

    def _say_refused(self, now: float, why: str) -> None:
        if now >= self._refused_next:
            self._refused_next = now + NO_WORKER_EVERY_S
            self.screen.say(f"Questions are waiting. {why}")

    def _check_workers(self, now: float, unserved: Sequence[str], live: Sequence[WorkerRecord]) -> None:
        if not unserved or self._refuses:  # they seem to be gone, as they cannot renew their heartbeats
            self._no_worker_since = None
            return
        if self._no_worker_since is None:
            self._no_worker_since = now
            self._no_worker_next = now + NO_WORKER_AFTER_S
        if now >= self._no_worker_next:
            self._no_worker_next = now + NO_WORKER_EVERY_S
            absent_s = now - self._no_worker_since
            queues = " and ".join(unserved)
            does = starting_words(unserved, self.broker) or f"Start one: {start_workers(unserved, live)}"
            self.screen.say(f"No worker has served {queues} for {absent_s:.0f} s. {does}")

    def _check_put_off(self, workers: Sequence[WorkerRecord]) -> None:
        said, self._put_off = self._put_off, [*put_off_by(self.run.run_id, workers), *waiting_lines(workers)]
        for each in self._put_off:
            if each not in said:
                self.screen.say(f"Questions are waiting. {each}")

    def _check_unbooted(self) -> None:
        for reason, found in unbooted_by_reason(unbooted_of(self.run, self.broker)).items():
            if reason not in self._unbooted:
                self._unbooted.add(reason)
                names = ", ".join(each.worker for each in found)
                self.screen.say(f"{names} failed to boot {since(found)} ago: {reason}")

    def _check_stall(self, now: float) -> None:
        if now < self._stall_next:
            return
        self._stall_next = now + STALL_EVERY_S
        self._stalls = self._stalls + 1 if self.broker.looks_stalled(self.run) else 0
        if self._stalls >= 2:
            self._stalls = 0
            try:
                questions, messages = self.broker.heal(self.run)
            except WritesRefused as trouble:
                self._say_refused(now, str(trouble))
                return
            if questions:
                lost, sent = number(questions, "lost question"), number(messages, "message")
                self.screen.say(f"{self.run.run_id} was stalled: {lost} re-sent in {sent}.")

    def _check_missing(self, now: float, counts: Counts) -> None:
        """Raise LedgerError if questions have been missing from the ledger for too long.

        While they are being written, their number changes; after an interruption, it does not.
        """
        if counts != self._incomplete or counts.written:
            self._incomplete, self._incomplete_since = counts, now
        elif now - self._incomplete_since >= INCOMPLETE_AFTER_S:
            raise LedgerError(
                f"{self.run.run_id}: {counts.unwritten:,} of {number(counts.total, 'question')} never written.",
                hint=f"{writer_of(self.run)} was interrupted: run the same command again to continue.",
            )
