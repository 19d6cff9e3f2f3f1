"""Showing how the runs of a suite get on: a bar for each where somebody looks at a terminal, one line for all where
nobody does."""

from __future__ import annotations

import abc
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from contract.ledger import Run
from producer.watching.crew import Member
from producer.watching.progress import LINE_EVERY_S, NothingToEnd, Pace, Snapshot, crew_table, duration, workers_told

__all__ = ["BarBoard", "Board", "LineBoard", "board_for"]

#: Runs that have a bar at the same time; more would push each other off the screen.
MOST_BARS = 15


class Board(NothingToEnd, abc.ABC):
    """Snapshots and remarks of several runs, gathered in rounds and shown together. A context manager."""

    def __init__(self, name: str, runs: Mapping[str, str], questions: int) -> None:
        """Of the suite called `name`; `runs` are ids with what a person calls them, `questions` are those of all."""
        self._name = name
        self._runs = runs
        self._questions = questions
        self._snapshots: dict[str, Snapshot] = {}
        self._remarks: dict[str, list[str]] = {}
        self._pace = Pace()

    def put(self, snapshot: Snapshot) -> None:
        """Take in how one of the runs stands."""
        self._snapshots[snapshot.run_id] = snapshot

    def tell(self, run_id: str, message: str) -> None:
        """Take in a remark on one of the runs."""
        self._remarks.setdefault(message, []).append(run_id)

    def draw(self, now: float, *, last: bool) -> None:
        """Show the round that ends at `now` (seconds of a steady clock); what several runs remarked is said once."""
        for message, run_ids in self._remarks.items():
            alone = len(run_ids) == 1 and run_ids[0] not in message
            self._say(f"{run_ids[0]}: {message}" if alone else message)
        self._remarks.clear()
        self._pace.observe(now, self._settled)
        self._show(last=last)

    @abc.abstractmethod
    def _say(self, message: str) -> None:
        """Tell something that stays on the screen."""

    @abc.abstractmethod
    def _show(self, *, last: bool) -> None:
        """Show how the runs stand."""

    @property
    def _settled(self) -> int:
        return sum(each.counts.settled for each in self._snapshots.values())

    def _under_way(self) -> list[Snapshot]:
        """Runs that are waited for, in the order of the suite."""
        there = (self._snapshots[run_id] for run_id in self._runs if run_id in self._snapshots)
        return [each for each in there if not each.counts.over]

    def _crew(self) -> Sequence[Member]:
        members = {(each.name, each.queue): each for found in self._under_way() for each in found.crew}
        return [members[key] for key in sorted(members)]

    def _line(self) -> str:
        """All runs on one line."""
        over = sum(each.counts.over for each in self._snapshots.values())
        pace = self._pace.lately or self._pace.mean
        left = f"{duration((self._questions - self._settled) / pace)} left" if pace else "time left unknown"
        parts = [
            f"{self._name}: {self._settled:,}/{self._questions:,}",
            f"{over} of {len(self._runs)} runs done",
            f"{self._pace.lately:,.1f}/s now, {self._pace.mean:,.1f}/s mean",
            *([workers_told(self._crew()), left] if self._under_way() else []),
        ]
        return " · ".join(parts)


class LineBoard(Board):
    """Plain lines, some seconds apart, for logs and pipes."""

    def __init__(self, console: Console, name: str, runs: Mapping[str, str], questions: int) -> None:
        super().__init__(name, runs, questions)
        self._console = console
        self._next = 0.0

    def _say(self, message: str) -> None:
        line = f"{time.strftime('%H:%M:%S')} {message}"
        self._console.print(line, soft_wrap=True, markup=False, highlight=False)

    def _show(self, *, last: bool) -> None:
        now = time.monotonic()
        if now >= self._next or last:
            self._next = now + LINE_EVERY_S
            self._say(self._line())


class BarBoard(Board):
    """A bar for each run under way, drawn anew in place, and messages above them."""

    def __init__(self, console: Console, name: str, runs: Mapping[str, str], questions: int) -> None:
        super().__init__(name, runs, questions)
        self._console = console
        self._live = Live(console=console, refresh_per_second=4, transient=False)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def _say(self, message: str) -> None:
        self._console.print(message, markup=False, highlight=False)

    def _show(self, *, last: bool) -> None:  # noqa: ARG002 - the last picture is drawn like any other
        bars = Table.grid(padding=(0, 1))
        under_way = self._under_way()
        for each in under_way[:MOST_BARS]:
            counts = each.counts
            bars.add_row(
                Text(self._runs[each.run_id], style="bold"),
                ProgressBar(total=counts.total, completed=counts.settled, width=30),
                Text(f"{counts.settled:,}/{counts.total:,}"),
                Text(each.left(), style="dim"),
            )
        parts: list[RenderableType] = [bars] if under_way else []
        if len(under_way) > MOST_BARS:
            parts.append(Text(f"and {len(under_way) - MOST_BARS} more runs", style="dim"))
        crew = self._crew()
        self._live.update(Group(Text(self._line()), *parts, *([crew_table(crew)] if crew else [])))


def board_for(console: Console, name: str, runs: Sequence[tuple[str, Run]]) -> Board:
    """Bars on a terminal, lines elsewhere; each run with what a person calls it."""
    kind = BarBoard if console.is_terminal else LineBoard
    titles = {run.run_id: title for title, run in runs}
    return kind(console, name, titles, sum(run.questions for _, run in runs))
