"""A submitted suite: the state of its runs, watching them, and printing the results."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from contract.commands import INTERRUPTED, note
from contract.engine_info import describe_differences
from contract.ledger import Run, RunState
from contract.wording import number
from producer.bar import reading
from producer.engine_differences import differs_json, not_those_running
from producer.export.formats import again_in
from producer.export.results import export
from producer.export.summary import Summary
from producer.options import again_to, progress_console
from producer.output import Lines, echo_json, echo_lines, echo_table, labelled
from producer.runs.earlier_runs import about_namesake, asked_already
from producer.runs.submit import Submitted
from producer.session import Session
from producer.suite.cell import Cell
from producer.suite.config import Suite
from producer.suite.export import write_table
from producer.suite.pairs import paired
from producer.suite.plan import Planned
from producer.suite.progress import Board
from producer.suite.render import echo_figures, figure_lines, first_and_more
from producer.suite.table import Table
from producer.suite.watching import watch_suite, watchers_of
from producer.watching.failures import failed_lines
from producer.watching.screens import screen_for
from producer.watching.unserved import remedy, unserved_queues, workers_of

__all__ = ["Work"]

#: Maximum number of runs whose failures are printed; `export` shows those of the others.
MOST_FAILED = 3


class Work:
    """A suite whose runs have been submitted to the ledger."""

    def __init__(
        self,
        session: Session,
        asked: Suite,
        file: Path,
        out: Path,
        done: Sequence[tuple[Planned, Submitted]],
        shared: bool,
        *,
        reuse: bool,
        formats: Sequence[str],
    ) -> None:
        """Create it; `shared` says whether entries have questions or contexts in common, `reuse` that of `--reuse`.

        Its runs are exported in `formats`.
        """
        self._session, self._asked, self._file, self._out = session, asked, file, out
        self._formats = formats
        self._done, self._shared = done, shared
        self._reuse_by = "" if reuse else "--reuse"

    @property
    def _runs(self) -> list[tuple[str, Run]]:
        """(entry, run) of all runs."""
        return [(planned.entry.name, done.run) for planned, done in self._done]

    @property
    def _watch_command(self) -> str:
        """The command that goes on with this suite, and writes its results where this one would."""
        file, formats = shlex.quote(str(self._file)), again_in(self._formats)
        return f"python -m producer suite {file} --watch{formats}{again_to(self._out)}"

    def table(self, summaries: Mapping[str, Summary] | None = None) -> Table:
        """Return all current figures; those that require reading every question only for runs that are over.

        `summaries` are those of runs that have just been read, by run.
        """
        cells = (self._refined(self._cell(entry, run), summaries or {}) for entry, run in self._runs)
        whole = Table(self._asked.name, tuple(cells), self._shared)
        if not whole.settled:
            return whole
        return replace(whole, comparisons=paired(self._session.ledger, whole.comparable()))

    def _cell(self, entry: str, run: Run) -> Cell:
        ledger = self._session.ledger
        return Cell(entry, run, ledger.counts(run.run_id), ledger.engines(run.run_id))

    def _refined(self, cell: Cell, summaries: Mapping[str, Summary]) -> Cell:
        """Return `cell` with all that requires reading its questions, if it is over or they have just been read.

        The ledger's counters know no contexts, no positions and no texts, and do not always show which failed and
        unanswered questions have a key.
        """
        found = summaries.get(cell.run.run_id)
        if found is None and not cell.counts.over:
            return cell
        found = found or self._read(cell)
        return replace(cell, counts=found.counts, summary=found)  # as in its results, though more may be settled since

    def _read(self, cell: Cell) -> Summary:
        with reading(self._session.ledger, cell.run, "results") as results:
            return Summary.of(cell.run, cell.counts.state, results)

    def echo_submitted(self) -> None:
        """Print the state of each run, and what should be known of it."""
        rows = ((each.entry.name, each.model, done.run.run_id, done.describe()) for each, done in self._done)
        echo_table(("entry", "model", "run", "state"), rows)
        lines = [*self._already_lines(), *self._differs_lines(), *self._engines_lines(), *self._worker_lines()]
        if lines:
            echo_lines(lines)

    def _already_lines(self) -> Lines:
        found = asked_already((done for _, done in self._done), self._session.ledger)
        what = "asks the same questions in the same way as"
        how = f"; to take over those answers, repeat this command with {self._reuse_by}" if self._reuse_by else ""
        return [("already", f"{run_id} {what} {', '.join(others)}{how}") for run_id, others in found.items()]

    def _differs_lines(self) -> Lines:
        found = [
            (done.run.run_id, about_namesake(of.plan, done, self._session.ledger, reuse_by=self._reuse_by))
            for of, done in self._done
        ]
        return [("differs", f"{run_id}: {how}") for run_id, how in found if how]

    def _other_engines(self) -> dict[str, dict[str, list[str]]]:
        """Return the runs whose answers are not of the engines that run now, each with what differs."""
        ledger, live = self._session.ledger, self._session.broker.all_workers()
        found = ((run.run_id, not_those_running(run, ledger.engines(run.run_id), live)) for _, run in self._runs)
        return {run_id: differs for run_id, differs in found if differs}

    def _engines_lines(self) -> Lines:
        """Return which answers the models that run now did not give, such as after a change of weights."""
        runs: dict[str, list[str]] = {}
        for run_id, differs in self._other_engines().items():
            runs.setdefault(describe_differences(differs), []).append(run_id)
        how = "another name of the suite, without --reuse, asks all questions again"
        return [
            (
                "engines",
                f"those that run now differ from those that answered {first_and_more(names)}, in {differ}; {how}",
            )
            for differ, names in runs.items()
        ]

    def _worker_lines(self) -> Lines:
        """Return how to start workers for queues that unfinished runs need and no worker serves."""
        broker = self._session.broker
        live = broker.all_workers()
        waiting = [run for _, run in self._runs if not self._session.ledger.counts(run.run_id).finished]
        unserved = list(dict.fromkeys(queue for run in waiting for queue in unserved_queues(run, live)))
        if not unserved:
            return []
        return [("workers", f"no worker serves {' and '.join(unserved)}; {remedy(unserved, live, broker)}")]

    def echo_next(self, *, as_json: bool) -> Table:
        """Print the current table and the next command; with --json also the state of each run, in one document."""
        table = self.table()
        if as_json:
            echo_json(self._submitted_json(table))
        else:
            does = "exports the runs and writes the table" if table.settled else "watches until all are settled"
            self._echo_table(table, [("next", f"{self._watch_command}     {does}")])
        return table

    def _submitted_json(self, table: Table) -> dict[str, Any]:
        content, others = table.to_json(), self._other_engines()
        for entry, (_, done) in zip(content["runs"], self._done, strict=True):
            entry["submitted"] = done.state.value
            entry["sent"], entry["messages"], entry["reused"] = done.sent, done.messages, done.reused
            entry["other_engines"] = differs_json(others.get(done.run.run_id, {}))
        return content

    def finish(self, *, as_json: bool) -> Table:
        """Watch until all runs are settled or cancelled, export them, write the table and print it."""
        self._watch()
        broker = self._session.broker
        files: list[Path] = []
        summaries: dict[str, Summary] = {}
        for _, run in self._runs:
            live = workers_of(run, broker.all_workers())
            done = export(self._session.ledger, run.run_id, self._out / run.run_id, self._formats, live)
            for remark in done.remarks:
                note(remark)
            files += done.files
            summaries[run.run_id] = done.summary
        table = self.table(summaries)
        written = write_table(table, self._out, self._file)
        if as_json:
            echo_json({**table.to_json(), "files": [str(path) for path in (*written, *files)]})
        else:
            self._echo_table(table, labelled("results", map(str, written)))
        return table

    def _watch(self) -> None:
        """Watch until all runs are over; Ctrl-C exits with 130 and does not affect the runs."""
        several = len({run.spec.model for _, run in self._runs}) > 1
        titles = [(f"{entry} · {run.spec.model}" if several else entry, run) for entry, run in self._runs]
        board = Board(screen_for(progress_console()), self._asked.name, titles)
        runs = [run for _, run in self._runs]
        watchers = watchers_of(runs, self._session.ledger, self._session.broker, board)
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
            why += failed_lines(each.run.run_id, each.failures)
        if len(failed) > MOST_FAILED:
            others = number(len(failed) - MOST_FAILED, "more run")
            why.append(("", f"and {others} with failed questions; python -m producer export RUN says why"))
        echo_lines([*figure_lines(table, again_to(self._out)), *why, *more])
