"""Staying with a run until every question of it is settled, and getting it moving again where it got stuck."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from contract import keys
from contract.errors import LedgerError, RedisUnreachable, UnknownRun, WritesRefused
from contract.fleet import WorkerRecord, WorkerState
from contract.ledger import Counts, Ledger, Run, RunState
from producer.broker import Broker
from producer.watching.progress import Pace, Screen, Snapshot
from producer.watching.unserved import put_off_by, start_workers, unbooted_by_reason
from producer.watching.worker_status import Member, RunWorkers

__all__ = ["TICK_S", "Clock", "Watcher", "watch"]

#: How often the ledger is asked, in seconds.
TICK_S = 0.5
#: How often a stall is looked for; two in a row make it one, since a message on its way to a worker is nowhere.
STALL_EVERY_S = 2.0
#: Patience with the absence of workers before it is mentioned, and until it is mentioned again.
NO_WORKER_AFTER_S, NO_WORKER_EVERY_S = 10.0, 60.0
#: How long a run may lack question bodies before the enqueueing that should write them is given up.
INCOMPLETE_AFTER_S = 30.0


@dataclass(frozen=True, slots=True)
class Clock:
    """Time, so that a test need not wait for it."""

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


def watch(ledger: Ledger, broker: Broker, run_id: str, screen: Screen, *, clock: Clock | None = None) -> Counts:
    """Show the run on `screen` until it is settled or cancelled; return its final counts.

    What got lost is sent again. A paused run is waited for.

    Outlives a Redis that goes away, or takes no writes, for a while. Raises LedgerError if the run is purged meanwhile,
    or if questions are missing that nobody is writing.
    """
    clock = clock or Clock()
    watcher = Watcher(ledger, broker, ledger.run(run_id), screen)
    with screen:
        while True:
            counts = watcher.look(clock.now())
            if counts is not None and counts.over:
                return counts
            clock.sleep(TICK_S)


@dataclass
class Watcher:
    """Looks at one run again and again: what it has come to, and what it needs."""

    ledger: Ledger
    broker: Broker
    run: Run
    screen: Screen
    pace: Pace = field(default_factory=Pace)
    crew: RunWorkers = field(default_factory=RunWorkers)
    away_since: float | None = None
    no_worker_since: float | None = None
    no_worker_next: float = 0.0
    stall_next: float = 0.0
    stalls: int = 0
    #: How a run stands whose questions are not all written, and since when it stands so.
    incomplete: Counts | None = None
    incomplete_since: float = 0.0
    #: What was said of workers that put the run off.
    put_off: list[str] = field(default_factory=list)
    #: Why workers did not boot, as far as it was said.
    unbooted: set[str] = field(default_factory=set)
    state: RunState = RunState.RUNNING
    settled: int = 0

    def look(self, now: float) -> Counts | None:
        """One look; None while Redis answers nothing."""
        try:
            return self._look(now)
        except (RedisUnreachable, WritesRefused) as trouble:
            if self.away_since is None:
                self.away_since = now
                self.screen.say(f"{trouble.message} Trying again until it does.")
            return None
        except UnknownRun as trouble:
            raise self._gone() from trouble

    def _gone(self) -> UnknownRun:
        total, settled = self.run.questions, self.settled
        return UnknownRun(
            f"{self.run.run_id} is gone from the ledger with its {total:,} questions; {settled:,} were settled when it "
            "was last seen.",
            hint="It was purged, or Redis lost its data: restarted without appendonly, or replaced by an empty server. "
            "Enqueue the same file again; it makes the same run, from the start.",
        )

    def _look(self, now: float) -> Counts:
        counts = self.ledger.counts(self.run.run_id)
        self.settled = counts.settled
        queues = keys.route(self.run.spec)
        workers = {queue: self.broker.workers(queue) for queue in queues}
        if self.away_since is not None:
            self.screen.say(f"Redis is back after {now - self.away_since:.0f} s.")
            self.away_since = None
        ready = any(each.state is WorkerState.READY for each in workers[queues[-1]])
        self.pace.observe(now, counts.settled, working=ready)
        crew = self.crew.look(each for of_queue in workers.values() for each in of_queue)
        queued = sum(map(self.broker.queue_length, queues))
        self.screen.show(self._snapshot(counts, crew, queued))
        if not counts.finished:
            self._mind_halt(counts)
        if not counts.finished and not counts.halted:
            self._mind_workers(now, workers)
            self._mind_put_off(each for of_queue in workers.values() for each in of_queue)
            self._mind_unbooted(queues)
            self._mind_stall(now)
            self._mind_missing(now, counts)
        return counts

    def _snapshot(self, counts: Counts, crew: Sequence[Member], queued: int) -> Snapshot:
        pace = self.pace
        return Snapshot(self.run.run_id, counts, pace.lately, pace.mean, crew, queued, pace.steady)

    def _mind_halt(self, counts: Counts) -> None:
        if counts.state is not self.state:
            resume = f"Let it go on with: python -m producer resume {self.run.run_id}"
            self.screen.say(f"The run is {counts.state}. {resume}" if counts.halted else "The run goes on.")
        self.state = counts.state

    def _mind_workers(self, now: float, workers: Mapping[str, Sequence[WorkerRecord]]) -> None:
        unserved = [queue for queue, of_queue in workers.items() if not of_queue]
        if not unserved:
            self.no_worker_since = None
            return
        if self.no_worker_since is None:
            self.no_worker_since = now
            self.no_worker_next = now + NO_WORKER_AFTER_S
        if now >= self.no_worker_next:
            self.no_worker_next = now + NO_WORKER_EVERY_S
            absent_s = now - self.no_worker_since
            queues = " and ".join(unserved)
            refused = self.broker.why_no_writes()
            remedy = refused or f"Start one: {start_workers(unserved, self.broker.all_workers())}"
            self.screen.say(f"No worker has taken from {queues} for {absent_s:.0f} s. {remedy}")

    def _mind_put_off(self, workers: Iterable[WorkerRecord]) -> None:
        said, self.put_off = self.put_off, put_off_by(self.run.run_id, workers)
        for each in self.put_off:
            if each not in said:
                self.screen.say(f"Questions wait. {each}")

    def _mind_unbooted(self, queues: Iterable[str]) -> None:
        failures = [each for queue in queues for each in self.broker.boot_failures(queue)]
        for reason, found in unbooted_by_reason(failures).items():
            if reason not in self.unbooted:
                self.unbooted.add(reason)
                self.screen.say(f"{', '.join(each.worker for each in found)} did not boot: {reason}")

    def _mind_stall(self, now: float) -> None:
        if now < self.stall_next:
            return
        self.stall_next = now + STALL_EVERY_S
        self.stalls = self.stalls + 1 if self.broker.looks_stalled(self.run) else 0
        if self.stalls >= 2:
            self.stalls = 0
            with suppress(WritesRefused):  # said where workers are missed: none can beat
                questions, messages = self.broker.heal(self.run)
                if questions:
                    self.screen.say(f"Stalled: {questions:,} questions were in no message; sent again in {messages:,}.")

    def _mind_missing(self, now: float, counts: Counts) -> None:
        """The ledger may have fewer questions than the run counts: an enqueueing is under way, or was cut short."""
        if counts != self.incomplete or counts.written:
            self.incomplete, self.incomplete_since = counts, now
        elif now - self.incomplete_since >= INCOMPLETE_AFTER_S:
            raise LedgerError(
                f"{counts.unwritten:,} of {counts.total:,} questions of {self.run.run_id} were never written.",
                hint="Its enqueueing was cut short: repeat that command, it goes on where it stopped.",
            )
