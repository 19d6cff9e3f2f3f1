"""A run's status at one moment, and how it is shown: as a line, or drawn on a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from contract.fleet import WorkerState
from contract.keys import is_score_queue
from contract.ledger import Counts
from contract.tables import Column, FittedTable
from contract.wording import number
from producer.result_lines import outcome_line
from producer.stats import Tally
from producer.watching.pace import Rates
from producer.watching.worker_status import Member

__all__ = ["Snapshot", "crew_table", "describe_rates", "describe_workers", "duration", "time_left"]

#: Columns of the workers' table. The queue is the last: it is the same for all, unless the run has retrieval.
COLUMNS = (
    Column("worker"),
    Column("state"),
    Column("questions/s", "right"),
    Column("batch fill", "right"),
    Column("busy", "right"),
    Column("queue", least=12),
)
#: Maximum width of a run's bar, in characters, and the minimum beside its name.
BAR_WIDTH, LEAST_BAR = 40, 8


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Status of a run at one moment."""

    run_id: str
    counts: Counts
    rates: Rates
    crew: Sequence[Member] = ()
    #: Messages waiting in the run's queues, and those among them that workers take before any of the run.
    queued: int = 0
    ahead: int = 0
    #: Whether each of the run's queues has a live worker.
    served: bool = True
    #: Whether all workers at one of these queues put the run's questions back.
    put_off: bool = False
    #: The run's questions without a key.
    without_key: int = 0
    #: Whether workers may still be answering questions of the run, though it is cancelled.
    in_flight: bool = False

    @property
    def left_s(self) -> float | None:
        """Estimated seconds until the end at the current pace; None while there is no progress."""
        return self.rates.left_s(self.counts.total - self.counts.settled)

    def outcomes(self) -> str:
        """Return `correct 12 · wrong 3 · unanswered 0 · failed 1`."""
        return outcome_line(self._tally)

    def accuracy(self) -> str:
        """Return the accuracy so far with its 95 % interval, and if questions failed, without these."""
        tally = self._tally
        if tally.all_failed:
            return "no accuracy, as all failed" + ("" if self.counts.finished else " so far")
        if self.without_key >= self.counts.total:
            return "no accuracy, as no question has a key"
        found = tally.over_all() if tally.keys_known else tally.over_answered()
        if found is None:
            return "no accuracy yet"
        of = "" if tally.keys_known else " over answered questions"
        responded = tally.without_failed()
        beside = f", {responded.value:.3f} without failed" if responded else ""
        return f"accuracy {found.value:.3f} ({found.low:.3f} to {found.high:.3f}){of}{beside}"

    @property
    def _tally(self) -> Tally:
        return Tally.of_counts(self.counts, self.without_key)

    def workers(self) -> str:
        """Return `2 workers, fill 98 %, busy 91 % · 12 messages queued`."""
        return f"{describe_workers(self.crew)} · {number(self.queued, 'message')} queued"

    def left(self) -> str:
        """Return `1:30 left`, or the run's state if it is over or halted; without workers, no pace can be expected."""
        if self.counts.halted or self.counts.over:
            return self.counts.standing
        if not self.served:
            return "one of its queues has no worker" if self.crew else "no worker"
        if self.put_off:
            return "put off"
        if 0 < self.ahead < self.queued and not self.rates.lately:  # else none of the run's own is queued
            return f"behind {number(self.ahead, 'message')} of higher priority"
        return time_left(self.left_s)

    def line(self) -> str:
        """Return everything on one line."""
        settled = f"{self.run_id}: {self.counts.settled:,}/{self.counts.total:,}"
        rest = (self.outcomes(), self.accuracy(), self.workers(), self.left())
        return " · ".join((settled, *describe_rates(self.rates), *rest))

    @property
    def over(self) -> bool:
        """Whether there is nothing left to wait for."""
        return self.counts.over and not self.in_flight

    def drawn(self) -> RenderableType:
        """Return a bar with the time left, the outcomes so far and the workers, in lines that fit narrow terminals."""
        below = (self.outcomes(), " · ".join((self.accuracy(), *describe_rates(self.rates))), self.workers())
        crew = [crew_table(self.crew)] if self.crew else []
        return Group(_FirstLine(self), *(Text(each, style="dim") for each in below), *crew)


@dataclass(frozen=True, slots=True)
class _FirstLine:
    """Name, bar, count and time left of a run; where they do not fit side by side, the name has a line of its own."""

    of: Snapshot

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        name = Text(self.of.run_id, style="bold", overflow="fold")
        counts = Text(f"{self.of.counts.settled:,}/{self.of.counts.total:,}")
        left = Text(self.of.left())
        row = Table.grid(padding=(0, 1))
        beside = sum(each.cell_len + 1 for each in (name, counts, left)) + LEAST_BAR <= options.max_width
        if beside:
            row.add_column(no_wrap=True)
        else:
            yield name
        row.add_column(max_width=BAR_WIDTH)  # only the bar may shrink
        row.add_column(no_wrap=True)
        row.add_column(no_wrap=True)
        bar = ProgressBar(total=self.of.counts.total, completed=self.of.counts.settled)  # takes the remaining width
        row.add_row(*([name] if beside else []), bar, counts, left)
        yield row


def whole_percent(share: float | None) -> str:
    """Return `98 %`, or a dash if unknown."""
    return "–" if share is None else f"{100 * share:.0f} %"


def describe_workers(crew: Sequence[Member]) -> str:
    """Return `3 workers, 1 booting, fill 98 %, busy 91 %`, with percentages averaged over those that score, if any.

    Those that retrieve are mostly idle, and not on GPUs.
    """
    parts = [number(len(crew), "worker")]
    idle = [each.state for each in crew if each.state != WorkerState.READY]  # explains why there is no progress
    parts += [f"{idle.count(state)} {state}" for state in sorted(set(idle))]
    scoring = [each for each in crew if is_score_queue(each.queue)] or crew
    for name, shares in (("fill", [each.fill for each in scoring]), ("busy", [each.busy for each in scoring])):
        known = [each for each in shares if each is not None]
        parts += [f"{name} {whole_percent(sum(known) / len(known))}"] if known else []
    return ", ".join(parts)


def describe_rates(rates: Rates) -> list[str]:
    """Return `12.0/s now, 11.5/s over 1:30`, or nothing before a second look: no rate is known then."""
    if not rates.mean_of_s:
        return []
    lately = [] if rates.lately is None else [f"{rates.lately:,.1f}/s now"]
    return [", ".join([*lately, f"{rates.mean:,.1f}/s over {duration(rates.mean_of_s)}"])]


def duration(seconds: float) -> str:
    """Return a duration as `1:30` or `2:00:00`."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def time_left(seconds: float | None) -> str:
    """Return `1:30 left`; None stands for no progress."""
    return "time left unknown" if seconds is None else f"{duration(seconds)} left"


def crew_table(crew: Sequence[Member]) -> FittedTable:
    """Return a table with a row per worker: what it works on, and how busy it is."""
    return FittedTable(COLUMNS, list(map(_row_of, crew)))


def _row_of(member: Member) -> Sequence[str]:
    pace = "–" if member.questions_per_s is None else f"{member.questions_per_s:,.1f}"
    busy = f"{whole_percent(member.busy)} {'GPU' if member.on_gpu else 'cores'}"
    return member.name, member.state, pace, whole_percent(member.fill), busy, member.queue
