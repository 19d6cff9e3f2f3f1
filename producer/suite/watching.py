"""Watches all runs of a suite, each as `watch` watches a single run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from contract.ledger import Counts, Ledger, Run
from producer.broker import Broker
from producer.suite.progress import Board
from producer.watching.progress import NothingToEnd, Snapshot
from producer.watching.watch import TICK_S, Clock, Watcher

__all__ = ["watch_suite", "watchers_of"]


@dataclass(frozen=True, slots=True)
class _Place(NothingToEnd):
    """The screen of one run, which forwards to the board."""

    board: Board
    run_id: str

    def show(self, snapshot: Snapshot) -> None:
        """Store the run's status until the board is drawn."""
        self.board.put(snapshot)

    def say(self, message: str) -> None:
        """Store the message until the board is drawn."""
        self.board.tell(self.run_id, message)


def watchers_of(runs: Sequence[Run], ledger: Ledger, broker: Broker, board: Board) -> list[Watcher]:
    """Return a watcher for each of `runs`, which shows it on `board`."""
    return [Watcher(ledger, broker, run, _Place(board, run.run_id)) for run in runs]


def watch_suite(watchers: Sequence[Watcher], board: Board, *, clock: Clock | None = None) -> dict[str, Counts]:
    """Show the watchers' runs on `board` until each is settled or cancelled; return their final counts by run id.

    Lost questions are sent again; paused runs and a temporarily unavailable Redis are waited for. Raises LedgerError if
    a run is purged in the meantime.
    """
    clock = clock or Clock()
    over: dict[str, Counts] = {}
    with board.screen:
        while True:
            now = clock.now()  # the same for all, so that runs with the same problem produce identical messages
            for watcher in watchers:
                if watcher.run.run_id in over:
                    continue
                counts = watcher.look(now)
                if counts is not None and counts.over:
                    over[watcher.run.run_id] = counts
            board.draw(now)
            if len(over) == len(watchers):
                return over
            clock.sleep(TICK_S)
