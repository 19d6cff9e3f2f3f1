"""Staying with all runs of a suite: each is looked after as `watch` looks after one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from contract.ledger import Counts, Ledger, Run
from producer.broker import Broker
from producer.suite.progress import Board
from producer.watching.progress import NothingToEnd, Snapshot
from producer.watching.watch import TICK_S, Clock, Watcher

__all__ = ["watch_suite"]


@dataclass(frozen=True, slots=True)
class _Place(NothingToEnd):
    """The screen of one run: its place on the board."""

    board: Board
    run_id: str

    def show(self, snapshot: Snapshot) -> None:
        """Keep how the run stands until the board is drawn."""
        self.board.put(snapshot)

    def say(self, message: str) -> None:
        """Keep the remark until the board is drawn."""
        self.board.tell(self.run_id, message)


def watch_suite(
    ledger: Ledger, broker: Broker, runs: Sequence[Run], board: Board, *, clock: Clock | None = None
) -> dict[str, Counts]:
    """Show `runs` on `board` until each is settled or cancelled; return their final counts by run id.

    What got lost is sent again, paused runs are waited for, and a Redis that goes away is, too. Raises LedgerError if a
    run is purged meanwhile.
    """
    clock = clock or Clock()
    watchers = [Watcher(ledger, broker, run, _Place(board, run.run_id)) for run in runs]
    over: dict[str, Counts] = {}
    with board.screen:
        while True:
            now = clock.now()  # the same for all, so that what concerns several is told in the same words
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
