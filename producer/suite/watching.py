"""Watches all runs of a suite, each as `watch` watches a single run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from contract.ledger import Ledger, Run
from producer.broker import Broker
from producer.suite.progress import Board
from producer.watching.outage import Clock, Outage
from producer.watching.progress import Snapshot
from producer.watching.screens import NothingToEnd
from producer.watching.watch import TICK_S, Watcher

__all__ = ["watch_suite", "watchers_of"]


@dataclass(frozen=True, slots=True)
class _RunScreen(NothingToEnd):
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
    return [Watcher(ledger, broker, run, _RunScreen(board, run.run_id)) for run in runs]


def watch_suite(watchers: Sequence[Watcher], board: Board, *, clock: Clock | None = None) -> None:
    """Show the watchers' runs on `board` until all are over at the same time.

    One that was over may go on, if its failed questions are asked again or it is resumed. Lost questions are sent
    again; paused runs and a temporarily unavailable Redis are waited for. Raises LedgerError if a run is purged in the
    meantime.
    """
    clock = clock or Clock()
    outage = Outage(board.screen.say, clock)
    with board.screen:
        while True:
            with outage.waited_for():
                seen = [(watcher, watcher.look()) for watcher in watchers]
                now = clock.now()  # the same for all, so that runs with the same problem produce identical messages
                for watcher, found in seen:
                    watcher.attend(now, found)
                board.draw(now)
                if board.over:
                    return
            clock.sleep(TICK_S)
