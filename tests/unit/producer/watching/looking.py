"""Who watches, and a clock for the watch."""

from __future__ import annotations

from collections.abc import Callable

from contract import keys
from contract.errors import WritesRefused
from contract.fleet import WorkerRecord, WorkerState
from contract.ledger import Counts, MemoryLedger, Run
from producer.broker import MemoryBroker
from producer.watching.outage import Clock
from producer.watching.progress import Snapshot
from producer.watching.screens import NothingToEnd
from producer.watching.watch import Watcher, watch
from tests.support import settle

__all__ = ["FULL", "WAITING", "Screen", "Script", "settle_open", "worker"]

FULL = WritesRefused("Redis at redis://here refuses writes: it is at its memory limit (OOM).", hint="Raise maxmemory.")
#: How a watch tells it.
WAITING = f"Questions are waiting. {FULL}"


class Screen(NothingToEnd):
    """Remembers what was shown and said of the run."""

    def __init__(self, ledger: MemoryLedger, broker: MemoryBroker, run: Run) -> None:
        self.snapshots: list[Snapshot] = []
        self.said: list[str] = []
        self._watcher = Watcher(ledger, broker, run, self)

    def watch(self, *events: tuple[float, Callable[[], object]]) -> Counts:
        """Stay with the run to its end, while these things happen, each at its time."""
        return watch(self._watcher, clock=Script(dict(events)).clock())

    def show(self, snapshot: Snapshot) -> None:
        self.snapshots.append(snapshot)

    def say(self, message: str) -> None:
        self.said.append(message)


class Script:
    """A clock that runs through its sleeps, and does what is due at each time."""

    def __init__(self, events: dict[float, Callable[[], object]], end: float = 300) -> None:
        self.time = 0.0
        self._events = dict(events)
        self._end = end

    def clock(self) -> Clock:
        return Clock(now=lambda: self.time, sleep=self.sleep)

    def sleep(self, seconds: float) -> None:
        self.time += seconds
        assert self.time < self._end, "the watch does not end"
        for due in [each for each in self._events if each <= self.time]:
            self._events.pop(due)()


def settle_open(ledger: MemoryLedger, run: Run, count: int = 5) -> None:
    ids = list(ledger.unsettled(run.run_id))[:count]
    settle(ledger, run.run_id, *ids)


def worker(model: str) -> WorkerRecord:
    return WorkerRecord(name="w", model=model, state=WorkerState.READY, queue=keys.score_queue(model))
