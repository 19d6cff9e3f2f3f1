"""Displays the progress of a suite: a bar per run on a terminal, one line for all runs otherwise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from contract.ledger import Run, RunState
from contract.wording import number
from producer.watching.pace import Pace
from producer.watching.progress import Snapshot, crew_table, describe_rates, describe_workers, time_left
from producer.watching.screens import BarScreen, LineScreen
from producer.watching.worker_status import Member, any_scoring

__all__ = ["Board"]

#: Maximum number of bars shown at the same time, so that they fit on the screen.
MOST_BARS = 15


class Board:
    """Collects snapshots and messages of several runs in rounds, and shows them together on `screen`."""

    def __init__(self, screen: LineScreen | BarScreen, name: str, runs: Sequence[tuple[str, Run]]) -> None:
        """Create a board for the suite called `name`, with its runs and their titles."""
        self.screen = screen
        self._name = name
        self._titles: Mapping[str, str] = {run.run_id: title for title, run in runs}
        self._questions = sum(run.questions for _, run in runs)
        self._snapshots: dict[str, Snapshot] = {}
        self._remarks: dict[str, list[str]] = {}
        self._pace = Pace()

    def put(self, snapshot: Snapshot) -> None:
        """Store the status of one of the runs."""
        self._snapshots[snapshot.run_id] = snapshot

    def tell(self, run_id: str, message: str) -> None:
        """Store a message about one of the runs."""
        self._remarks.setdefault(message, []).append(run_id)

    def draw(self, now: float) -> None:
        """Show the round that ends at `now` (seconds of a monotonic clock); messages of several runs are shown once."""
        for message, run_ids in self._remarks.items():
            alone = len(run_ids) == 1 and run_ids[0] not in message
            self.screen.say(f"{run_ids[0]}: {message}" if alone else message)
        self._remarks.clear()
        under_way = self._under_way()
        going = [each for each in under_way if not each.counts.halted]
        working = any(not each.put_off and any_scoring(each.crew) for each in going or under_way)
        self._pace.observe(now, self._settled, working=working, halted=bool(under_way) and not going)
        self.screen.show(self)

    @property
    def over(self) -> bool:
        """Whether all runs are over."""
        return self._over == len(self._titles)

    def line(self) -> str:
        """Return all runs on one line."""
        parts = [
            f"{self._name}: {self._settled:,}/{self._questions:,}",
            f"{self._over} of {number(len(self._titles), 'run')} done",
            *describe_rates(self._pace.rates),
            *([describe_workers(self._crew()), self._left()] if self._under_way() else []),
        ]
        return " · ".join(parts)

    def _left(self) -> str:
        """Return `1:30 left, 1 run paused`, of the runs that go on; if one has no worker, there is no telling."""
        going = [each for each in self._under_way() if not each.counts.halted]
        paused = sum(each.counts.state is RunState.PAUSED for each in self._under_way())
        if not going:
            return (RunState.PAUSED if paused else RunState.CANCELLED).value
        if unserved := sum(not each.served for each in going):
            none = unserved == len(going) and not self._crew()
            return "no worker" if none else f"no worker for {number(unserved, 'run')}"
        put_off = sum(each.put_off for each in going)
        rest = sum(each.counts.total - each.counts.settled for each in going if not each.put_off)
        left = "" if put_off == len(going) else time_left(self._pace.rates.left_s(rest))
        waiting = [f"{number(n, 'run')} {how}" for n, how in ((put_off, "put off"), (paused, "paused")) if n]
        return ", ".join([*([left] if left else []), *waiting])

    def drawn(self) -> RenderableType:
        """Return the line, a bar for each unfinished run, and the workers."""
        bars = Table.grid(padding=(0, 1))
        under_way = self._under_way()
        for each in under_way[:MOST_BARS]:
            counts = each.counts
            bars.add_row(
                Text(self._titles[each.run_id], style="bold"),
                ProgressBar(total=counts.total, completed=counts.settled, width=30),
                Text(f"{counts.settled:,}/{counts.total:,}"),
                Text(each.left(), style="dim"),
            )
        parts: list[RenderableType] = [bars] if under_way else []
        if len(under_way) > MOST_BARS:
            parts.append(Text(f"and {number(len(under_way) - MOST_BARS, 'more run')}", style="dim"))
        crew = self._crew()
        return Group(Text(self.line()), *parts, *([crew_table(crew)] if crew else []))

    @property
    def _over(self) -> int:
        return sum(each.over for each in self._snapshots.values())

    @property
    def _settled(self) -> int:
        return sum(each.counts.settled for each in self._snapshots.values())

    def _under_way(self) -> list[Snapshot]:
        """Return the unfinished runs, in the order of the suite."""
        there = (self._snapshots[run_id] for run_id in self._titles if run_id in self._snapshots)
        return [each for each in there if not each.over]

    def _crew(self) -> Sequence[Member]:
        members = {(each.name, each.queue): each for found in self._under_way() for each in found.crew}
        return [members[key] for key in sorted(members)]
