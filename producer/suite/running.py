"""The runs of a suite in the ledger: their figures in a table, and following them until all are over and exported."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import click

from contract.commands import INTERRUPTED, note
from contract.ledger import Run, RunState
from contract.wording import number
from producer.bar import progress_console, reading
from producer.export.formats import again_in
from producer.export.summary import Summary
from producer.options import again_to
from producer.output import Lines, echo_json, echo_lines, labelled
from producer.session import Session
from producer.suite.cell import Cell
from producer.suite.export import write_table
from producer.suite.pairs import paired
from producer.suite.progress import Board
from producer.suite.render import echo_figures, figure_lines
from producer.suite.table import Table
from producer.suite.watching import watch_suite, watchers_of
from producer.watching.failures import failed_lines
from producer.watching.finish import export_run
from producer.watching.screens import screen_for

__all__ = ["Work"]

#: Maximum number of runs whose failures are printed; `export` shows those of the others.
MOST_FAILED = 3


@dataclass(frozen=True, slots=True)
class Work:
    """A suite whose runs have been submitted to the ledger."""

    session: Session
    #: The suite's name, and its file.
    name: str
    file: Path
    #: Each with its entry.
    runs: Sequence[tuple[str, Run]]
    #: Where the runs are exported to, and in which formats.
    out: Path
    formats: Sequence[str]
    #: Whether entries have questions or contexts in common.
    shared: bool

    @property
    def _watch_command(self) -> str:
        """The command that goes on with this suite, and writes its results where this one would."""
        file, formats = shlex.quote(str(self.file)), again_in(self.formats)
        return f"python -m producer suite {file} --watch{formats}{again_to(self.out)}"

    def table(self, summaries: Mapping[str, Summary] | None = None) -> Table:
        """Return all current figures; those that require reading every question only for runs that are over.

        `summaries` are those of runs that have just been read, by run.
        """
        read = summaries or {}
        cells = tuple(self._cell(entry, run, read.get(run.run_id)) for entry, run in self.runs)
        table = Table(self.name, cells, self.shared)
        if not table.settled:
            return table
        return replace(table, comparisons=paired(self.session.ledger, table.comparable()))

    def _cell(self, entry: str, run: Run, read: Summary | None) -> Cell:
        """Return the figures of a run: those that were `read` before, even if more questions have been settled since.

        Without `read`, all questions of a run that is over are read. The ledger's counters know no contexts, positions
        or texts, and do not always show which failed and unanswered questions have a key.
        """
        ledger = self.session.ledger
        counts, used = ledger.counts(run.run_id), ledger.engines(run.run_id)
        if read is None and counts.over:
            with reading(ledger, run, "results") as results:
                read = Summary.of(run, counts.state, results)
        return Cell(entry, run, read.counts if read else counts, used, read)

    def echo_next(self, table: Table) -> None:
        """Print the table and the next command."""
        what_it_does = "exports the runs and writes the table" if table.settled else "watches until all are settled"
        self._echo_table(table, [("next", f"{self._watch_command}     {what_it_does}")])

    def finish(self, *, as_json: bool) -> Table:
        """Watch until all runs are settled or cancelled, export them, write the table and print it."""
        self._watch()
        files: list[Path] = []
        summaries: dict[str, Summary] = {}
        for _, run in self.runs:
            done = export_run(self.session, run, self.out, self.formats)
            files += done.files
            summaries[run.run_id] = done.summary
        table = self.table(summaries)
        written = write_table(table, self.out, self.file)
        if as_json:
            echo_json({**table.to_json(), "files": [str(path) for path in (*written, *files)]})
        else:
            self._echo_table(table, labelled("results", map(str, written)))
        return table

    def _watch(self) -> None:
        """Watch until all runs are over; Ctrl-C exits with 130 and does not affect the runs."""
        runs = [run for _, run in self.runs]
        several = len({run.spec.model for run in runs}) > 1
        titles = [(f"{entry} · {run.spec.model}" if several else entry, run) for entry, run in self.runs]
        board = Board(screen_for(progress_console()), self.name, titles)
        watchers = watchers_of(runs, self.session.ledger, self.session.broker, board)
        try:
            watch_suite(watchers, board)
        except KeyboardInterrupt:
            paused = [each.run.run_id for each in watchers if each.state is RunState.PAUSED]
            until = "stay paused until python -m producer resume RUN"
            but = f", but these {until}: {', '.join(paused)}" if paused else ""
            note(f"the runs continue{but}; rejoin with: {self._watch_command}")
            raise click.exceptions.Exit(INTERRUPTED) from None

    def _echo_table(self, table: Table, more: Lines) -> None:
        """Print the table, the notes on it, and `more`."""
        click.echo()
        echo_figures(table)
        click.echo()
        why: Lines = []
        failed = [each.summary for each in table.cells if each.summary and each.summary.failures.count]
        for each in failed[:MOST_FAILED]:
            why += failed_lines(each.run, each.failures)
        if len(failed) > MOST_FAILED:
            others = number(len(failed) - MOST_FAILED, "more run")
            why.append(("", f"and {others} with failed questions; python -m producer export RUN says why"))
        echo_lines([*figure_lines(table, again_to(self.out)), *why, *more])
