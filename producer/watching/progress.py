"""Displays the progress of a run: a progress bar on a terminal, plain lines otherwise."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, Self

from rich.console import Console, Group, JustifyMethod, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from contract.fleet import WorkerState
from contract.ledger import Counts
from contract.wording import number
from producer.options import LINE_EVERY_S
from producer.output import outcome_line
from producer.stats import Tally
from producer.watching.worker_status import Member

__all__ = [
    "BarScreen",
    "LineScreen",
    "NothingToEnd",
    "Pace",
    "Rates",
    "Screen",
    "Snapshot",
    "crew_table",
    "describe_workers",
    "duration",
    "screen_for",
    "time_left",
]

#: Columns of the workers' table, with their alignment.
COLUMNS: dict[str, JustifyMethod] = {
    "worker": "left",
    "state": "left",
    "queue": "left",
    "questions/s": "right",
    "batch fill": "right",
    "busy": "right",
}
#: Maximum width of a run's bar, in characters.
BAR_WIDTH = 40
#: Window of the current pace, in seconds.
WINDOW_S = 10.0
#: Batches that take longer than the window finish in bursts, so the current pace cannot predict when the run ends: the
#: steady pace covers at least this many seconds and bursts.
STEADY_S, STEADY_BURSTS = 60.0, 6


class Rates(NamedTuple):
    """Questions per second at one moment: currently, over a minute, and since work began."""

    lately: float
    steady: float
    mean: float

    def describe(self) -> str:
        """Return `12.0/s now, 11.5/s mean`."""
        return f"{self.lately:,.1f}/s now, {self.mean:,.1f}/s mean"

    def left_s(self, rest: int) -> float | None:
        """Estimate how many seconds `rest` questions take; None while there is no progress."""
        pace = self.steady or self.mean
        return rest / pace if pace else None


@dataclass
class Pace:
    """Questions per second: currently, over a minute, and since work began."""

    #: (time, settled questions); for equal counts only the first and the last time.
    _seen: deque[tuple[float, int]] = field(default_factory=deque)
    _first: tuple[float, int] | None = None

    def observe(self, now: float, settled: int, *, working: bool = True) -> None:
        """Record that `settled` questions are settled at `now`, in seconds of a monotonic clock.

        `working` says whether a worker is ready; time before the first worker is ready does not count.
        """
        if self._first is None or (not working and settled == self._first[1]):
            self._first = (now, settled)
            self._seen.clear()
        if len(self._seen) > 1 and self._seen[-2][1] == self._seen[-1][1] == settled:
            self._seen.pop()
        self._seen.append((now, settled))
        while len(self._seen) > 2 and now - self._seen[1][0] >= STEADY_S and self._bursts > STEADY_BURSTS:
            self._seen.popleft()

    @property
    def _bursts(self) -> int:
        return len({settled for _, settled in self._seen}) - 1

    @property
    def rates(self) -> Rates:
        """All three, as they are now."""
        return Rates(self.lately, self.steady, self.mean)

    @property
    def lately(self) -> float:
        """Questions per second over the last `WINDOW_S` seconds."""
        if not self._seen:
            return 0.0
        start = max(self._seen[0][0], self._seen[-1][0] - WINDOW_S)
        before = next(settled for at, settled in reversed(self._seen) if at <= start)
        return _rate((start, before), self._seen[-1])

    @property
    def steady(self) -> float:
        """Questions per second over a minute or more, or since work began; used to estimate the time left."""
        return _rate(self._seen[0], self._seen[-1]) if self._seen else 0.0

    @property
    def mean(self) -> float:
        """Questions per second since work began."""
        return _rate(self._first, self._seen[-1]) if self._first else 0.0


def _rate(start: tuple[float, int], end: tuple[float, int]) -> float:
    elapsed = end[0] - start[0]
    return (end[1] - start[1]) / elapsed if elapsed > 0 else 0.0


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Status of a run at one moment."""

    run_id: str
    counts: Counts
    rates: Rates
    crew: Sequence[Member] = ()
    #: Messages waiting in the run's queues.
    queued: int = 0
    #: Whether each of the run's queues has a live worker.
    served: bool = True
    #: The run's questions without a key.
    without_key: int = 0

    @property
    def left_s(self) -> float | None:
        """Estimated seconds until the end at the current pace; None while there is no progress."""
        return self.rates.left_s(self.counts.total - self.counts.settled)

    def outcomes(self) -> str:
        """Return `correct 12 · wrong 3 · unanswered 0 · failed 1`."""
        return outcome_line(self._tally)

    def accuracy(self) -> str:
        """Return the accuracy so far with its 95 % interval."""
        tally = self._tally
        if tally.all_failed:
            return "no accuracy, as all failed"
        if self.without_key >= self.counts.total:
            return "no accuracy, as no question has a key"
        found = tally.over_all() if tally.keys_known else tally.over_answered()
        if found is None:
            return "no accuracy yet"
        of = "" if tally.keys_known else " over answered questions"
        return f"accuracy {found.value:.3f} ({found.low:.3f} to {found.high:.3f}){of}"

    @property
    def _tally(self) -> Tally:
        return Tally.of_counts(self.counts, self.without_key)

    def workers(self) -> str:
        """Return `2 workers, fill 98 %, busy 91 % · 12 queued`, with percentages averaged over the workers."""
        return f"{describe_workers(self.crew)} · {self.queued:,} queued"

    def left(self) -> str:
        """Return `1:30 left`, or the run's state if it is over or halted; without workers, no pace can be expected."""
        if self.counts.halted or self.counts.over:
            return self.counts.standing
        if not self.served:
            return "no worker"
        return time_left(self.left_s)

    def line(self) -> str:
        """Return everything on one line."""
        settled = f"{self.run_id}: {self.counts.settled:,}/{self.counts.total:,}"
        return " · ".join(
            (settled, self.rates.describe(), self.outcomes(), self.accuracy(), self.workers(), self.left())
        )

    @property
    def over(self) -> bool:
        """Whether there is nothing left to wait for."""
        return self.counts.over

    def drawn(self) -> RenderableType:
        """Return a bar with the time left, the outcomes so far and the workers, in lines that fit narrow terminals."""
        counts = self.counts
        first = Table.grid(padding=(0, 1))
        for widest in (None, BAR_WIDTH, None, None):  # only the bar may shrink on narrow terminals
            first.add_column(no_wrap=widest is None, max_width=widest)
        first.add_row(
            Text(self.run_id, style="bold"),
            ProgressBar(total=counts.total, completed=counts.settled),  # takes the remaining width
            Text(f"{counts.settled:,}/{counts.total:,}"),
            Text(self.left()),
        )
        below = (self.outcomes(), f"{self.accuracy()} · {self.rates.describe()}", self.workers())
        crew = [crew_table(self.crew)] if self.crew else []
        return Group(first, *(Text(each, style="dim") for each in below), *crew)


def percent(share: float | None) -> str:
    """Return `98 %`, or a dash if unknown."""
    return "–" if share is None else f"{100 * share:.0f} %"


def describe_workers(crew: Sequence[Member]) -> str:
    """Return `3 workers, 1 booting, fill 98 %, busy 91 %`, with percentages averaged over the workers."""
    parts = [number(len(crew), "worker")]
    idle = [each.state for each in crew if each.state != WorkerState.READY]  # explains why there is no progress
    parts += [f"{idle.count(state)} {state}" for state in sorted(set(idle))]
    for name, shares in (("fill", [each.fill for each in crew]), ("busy", [each.busy for each in crew])):
        known = [each for each in shares if each is not None]
        parts += [f"{name} {percent(sum(known) / len(known))}"] if known else []
    return ", ".join(parts)


def duration(seconds: float) -> str:
    """Return a duration as `1:30` or `2:00:00`."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def time_left(seconds: float | None) -> str:
    """Return `1:30 left`; None stands for no progress."""
    return "time left unknown" if seconds is None else f"{duration(seconds)} left"


class Picture(Protocol):
    """Anything that a screen can show."""

    def line(self) -> str:
        """Return it as one log line."""

    def drawn(self) -> RenderableType:
        """Return it as drawn on a terminal, where it is redrawn in place."""

    @property
    def over(self) -> bool:
        """Whether it is the last one."""


class Screen(Protocol):
    """Output of a watcher; a context manager."""

    def __enter__(self) -> Self: ...
    def __exit__(self, *_: object) -> None: ...
    def show(self, snapshot: Snapshot) -> None:
        """Show the run's current status."""

    def say(self, message: str) -> None:
        """Print a message that stays on the screen."""


class NothingToEnd:
    """A no-op context manager for screens that need no cleanup."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None


class LineScreen(NothingToEnd):
    """Plain lines, a few seconds apart, for logs and pipes."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._next = 0.0

    def show(self, picture: Picture) -> None:
        """Print the picture's line, unless one was printed less than `LINE_EVERY_S` seconds ago."""
        now = time.monotonic()
        if now >= self._next or picture.over:
            self._next = now + LINE_EVERY_S
            self.say(picture.line())

    def say(self, message: str) -> None:
        """Print one line, with the time."""
        self._console.print(f"{time.strftime('%H:%M:%S')} {message}", soft_wrap=True, markup=False, highlight=False)


class BarScreen:
    """A picture that is redrawn in place, with messages above it."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, refresh_per_second=4, transient=False)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def show(self, picture: Picture) -> None:
        """Redraw the picture."""
        self._live.update(picture.drawn())

    def say(self, message: str) -> None:
        """Print one line above the picture."""
        self._console.print(message, markup=False, highlight=False)


def crew_table(crew: Sequence[Member]) -> Table:
    """Return a table with a row per worker: what it works on, and how busy it is."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for name, justify in COLUMNS.items():
        table.add_column(name, justify=justify)
    for each in crew:
        pace = "–" if each.questions_per_s is None else f"{each.questions_per_s:,.1f}"
        busy = f"{percent(each.busy)} {'GPU' if each.on_gpu else 'cores'}"
        table.add_row(*map(Text, (each.name, each.state, each.queue, pace, percent(each.fill), busy)))
    return table


def screen_for(console: Console) -> LineScreen | BarScreen:
    """Return a screen with a progress bar for a terminal, and one with plain lines otherwise."""
    return BarScreen(console) if console.is_terminal else LineScreen(console)
