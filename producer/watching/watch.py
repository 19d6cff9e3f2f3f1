"""Watches a run until all its questions are settled, and recovers it if it stalls."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from contract import keys
from contract.errors import UnknownRun
from contract.fleet import WorkerRecord
from contract.ledger import REQUEST_ENDED, Counts, Ledger, Run, RunState
from contract.names import is_request
from contract.wording import number
from producer.watching import checks
from producer.watching.outage import Clock, Outage
from producer.watching.pace import Pace
from producer.watching.progress import Snapshot
from producer.watching.screens import Screen
from producer.watching.unserved import is_put_off, more_urgent, unserved_queues, workers_of
from producer.watching.worker_status import RunWorkers, any_scoring

if TYPE_CHECKING:
    from producer.broker import Broker

__all__ = ["TICK_S", "Watcher", "watch"]

#: Polling interval of the ledger, in seconds.
TICK_S = 0.5
#: What became of a run that is not there any more, and what to do.
PURGED_OR_LOST = (
    "The run was purged, or Redis lost its data: it was restarted without appendonly, or replaced by an empty server. "
    "Repeat the `enqueue`, `suite` or `load` that made it, to recreate it from the start."
)


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
                if watcher.attend(clock.now(), seen).over:
                    return seen.counts
            clock.sleep(TICK_S)


@dataclass(frozen=True, slots=True)
class Seen:
    """What the ledger, the queues and the workers have of a run at one moment."""

    counts: Counts
    #: All live workers, of whatever queue.
    live: Sequence[WorkerRecord]
    #: Messages waiting in the run's queues, and those among them that workers take before any of the run.
    queued: int
    ahead: int
    #: Whether workers may still be answering questions of the run, though it is cancelled.
    in_flight: bool


class Watcher:
    """Polls one run: shows its status and takes care of what it needs."""

    def __init__(self, ledger: Ledger, broker: Broker, run: Run, screen: Screen) -> None:
        self.run = run
        self.screen = screen
        #: State of the run, as last seen.
        self.state = RunState.RUNNING
        self._ledger = ledger
        self._broker = broker
        self._settled = 0
        self._pace = Pace()
        self._crew = RunWorkers()
        #: Whether questions in flight of a cancelled run are waited for.
        self._awaits_in_flight = False
        self._refused = checks.Refused(broker, screen.say)
        self._unserved = checks.Unserved(broker, screen.say)
        self._put_off = checks.PutOff(run, screen.say)
        self._unbooted = checks.Unbooted(run, broker, screen.say)
        self._vanished = checks.Vanished(run, broker, screen.say)
        self._stalled = checks.Stalled(run, broker, screen.say)
        self._missing = checks.Missing(run)

    def look(self) -> Seen:
        """Return how the run stands."""
        with self._explaining_if_gone():
            counts = self._ledger.counts(self.run.run_id)
        live = self._broker.all_workers()
        in_flight = counts.over and not counts.finished and self._broker.in_flight(self.run)
        lengths = [self._broker.queue_lengths(queue) for queue in keys.route(self.run.spec)]
        queued = sum(sum(each.values()) for each in lengths)
        ahead = sum(more_urgent(self.run, each) for each in lengths)
        return Seen(counts, live, queued, ahead, in_flight)

    @contextmanager
    def _explaining_if_gone(self) -> Iterator[None]:
        try:
            yield
        except UnknownRun as trouble:
            total, settled = self.run.questions, self._settled
            raise UnknownRun(
                f"{self.run.run_id} is no longer in the ledger; last seen with {settled:,} of "
                f"{number(total, 'question')} settled.",
                hint=REQUEST_ENDED if is_request(self.run.run_id) else PURGED_OR_LOST,
            ) from trouble

    def attend(self, now: float, seen: Seen) -> Snapshot:
        """Show what was `seen` just now, and do what the run needs. Returns what is shown."""
        counts, live = seen.counts, seen.live
        self._settled = counts.settled
        there, unserved = workers_of(self.run, live), unserved_queues(self.run, live)
        crew, put_off = self._crew.look(there), is_put_off(self.run, there)
        self._pace.observe(now, counts.settled, working=not put_off and any_scoring(crew), halted=counts.halted)
        shown = Snapshot(
            self.run.run_id,
            counts,
            self._pace.rates,
            crew=crew,
            queued=seen.queued,
            ahead=seen.ahead,
            served=not unserved,
            put_off=put_off,
            without_key=self.run.without_key,
            in_flight=seen.in_flight,
        )
        self.screen.show(shown)
        if not counts.finished:
            self._check_halt(counts)
            self._check_in_flight(in_flight=seen.in_flight)
        if counts.halted:
            self._unserved.look(now, (), live)  # no worker is missed meanwhile
        elif not counts.finished:
            self._refused.look(now, counts.settled, live)
            # Where Redis refuses writes, workers only seem to be gone: they cannot renew their heartbeats.
            self._unserved.look(now, () if self._refused.lasts else unserved, live)
            self._put_off.look(there)
            self._unbooted.look()
            if not unserved and not self._refused.lasts:
                self._vanished.look(now)
            with self._explaining_if_gone():
                if why := self._stalled.look(now):
                    self._refused.tell(now, why)
            self._missing.look(now, counts)
        return shown

    def _check_halt(self, counts: Counts) -> None:
        if counts.state is not self.state:
            resume = f"Resume it with: python -m producer resume {self.run.run_id}"
            resumed = f"{self.run.run_id} has been resumed."
            self.screen.say(f"The run is {counts.state}. {resume}" if counts.halted else resumed)
        self.state = counts.state

    def _check_in_flight(self, *, in_flight: bool) -> None:
        if in_flight and not self._awaits_in_flight:
            self.screen.say(f"{self.run.run_id}: waiting for the questions that workers have begun.")
        self._awaits_in_flight = in_flight
