"""A suite whose runs are in the ledger: how they stand, staying with them, and what is printed of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import click

from contract import keys
from contract.ledger import Run
from producer.export.results import export
from producer.export.summary import Summary
from producer.options import INTERRUPTED, note, progress_console
from producer.output import Lines, echo_json, echo_lines, echo_table
from producer.runs.submit import Submitted, asked_already
from producer.session import Session
from producer.stats.denominators import HEARD
from producer.stats.failures import Failures
from producer.suite.cell import Cell
from producer.suite.config import Suite
from producer.suite.export import write_table
from producer.suite.pairs import paired
from producer.suite.plan import Planned
from producer.suite.progress import Board
from producer.suite.render import echo_figures, figure_lines
from producer.suite.table import Table
from producer.suite.watching import watch_suite
from producer.watching.failures import failed_lines
from producer.watching.progress import screen_for
from producer.watching.status import workers_of
from producer.watching.unserved import start_workers

__all__ = ["Work"]

#: Runs whose failures are told; `status` tells those of others.
MOST_FAILED = 3


class Work:
    """A suite whose runs are in the ledger."""

    def __init__(
        self,
        session: Session,
        asked: Suite,
        file: Path,
        out: Path,
        done: Sequence[tuple[Planned, Submitted]],
        shared: bool,
    ) -> None:
        """`shared`: whether entries have questions or contexts in common."""
        self._session, self._asked, self._file, self._out = session, asked, file, out
        self._done, self._shared = done, shared

    @property
    def _runs(self) -> list[tuple[str, Run]]:
        """Entry and run."""
        return [(planned.entry.name, done.run) for planned, done in self._done]

    def standing(self) -> Table:
        """What the ledger's counters tell, without a look at any question."""
        return Table(self._asked.name, tuple(self._cell(entry, run) for entry, run in self._runs), self._shared)

    def table(self) -> Table:
        """All figures as they stand. What takes a look at every question is there for settled runs alone."""
        found = self.standing()
        whole = replace(found, cells=tuple(map(self._looked_at, found.cells)))
        if not whole.settled:
            return whole
        return replace(whole, comparisons=paired(self._session.ledger, whole.comparable()))

    def _cell(self, entry: str, run: Run) -> Cell:
        ledger = self._session.ledger
        engines = ledger.engines(run.run_id)
        simulated = any(each.engine.get("engine") == "simulated" for each in engines)
        return Cell(entry, run, ledger.counts(run.run_id), simulated)

    def _looked_at(self, cell: Cell) -> Cell:
        """`cell` with what only a look at its questions tells, where that may be more than the counters do.

        These know no contexts; and of failed and unanswered questions not which have a key.
        """
        run, taken = cell.run, cell.run.taken
        alone = taken and not taken.with_context and not taken.repeated
        if not cell.counts.finished or (alone and not (run.without_key and cell.failed)):
            return cell
        found = Summary.of(run, cell.counts.state, self._session.ledger.results(run.run_id))
        return replace(
            cell,
            context_interval=found.context_interval(),
            heard_context_interval=found.context_interval(HEARD),
            counted=found.tally,
        )

    def echo_submitted(self, *, as_json: bool) -> None:
        """What each run met; with --json the table, too, as that is one document."""
        if as_json:
            content = self.table().to_json()
            for told, (_, done) in zip(content["runs"], self._done, strict=True):
                told["submitted"] = done.state.value
                told["sent"], told["messages"] = done.sent, done.messages
            echo_json(content)
            return
        rows = ((each.entry.name, each.model, done.run.run_id, done.told()) for each, done in self._done)
        echo_table(("entry", "model", "run", "state"), rows)
        if lines := [*self._already_lines(), *self._worker_lines()]:
            echo_lines(lines)

    def _already_lines(self) -> Lines:
        found = asked_already((done for _, done in self._done), self._session.ledger)
        what = "asks what was asked in the same way under another name, in"
        return [("already", f"{run_id} {what} {', '.join(others)}") for run_id, others in found.items()]

    def _worker_lines(self) -> Lines:
        """Where nobody takes from a queue that runs wait on: how to start a worker for it."""
        broker = self._session.broker
        waiting = [run for _, run in self._runs if not self._session.ledger.counts(run.run_id).finished]
        queues = dict.fromkeys(queue for run in waiting for queue in keys.route(run.spec))
        unserved = [queue for queue in queues if not broker.workers(queue)]
        if not unserved:
            return []
        remedy = start_workers(unserved, broker.all_workers())
        return [("workers", f"nobody takes from {' and '.join(unserved)}, start: {remedy}")]

    def echo_next(self, *, as_json: bool) -> Table:
        """The table as it stands, and what comes next."""
        table = self.standing() if as_json else self.table()
        if not as_json:
            does = "exports the runs and writes the table" if table.settled else "stays until all are settled"
            self._echo_table(table, [("next", f"python -m producer suite {self._file} --watch     {does}")])
        return table

    def finish(self, *, as_json: bool) -> Table:
        """Stay until all runs are settled or cancelled, export them, write the table and print it."""
        self._stay()
        broker = self._session.broker
        files: list[Path] = []
        for _, run in self._runs:
            live = workers_of(run, broker)
            done = export(self._session.ledger, run.run_id, self._out / run.run_id, live=live)
            for remark in done.remarks:
                note(remark)
            files += done.files
        table = self.table()
        written = write_table(table, self._out, self._file)
        if as_json:
            echo_json({**table.to_json(), "files": [str(path) for path in (*written, *files)]})
        else:
            self._echo_table(table, [("results" if not at else "", str(path)) for at, path in enumerate(written)])
        return table

    def _stay(self) -> None:
        """Ctrl-C ends the watching with 130, and nothing else."""
        several = len({run.spec.model for _, run in self._runs}) > 1
        titles = [(f"{entry} · {run.spec.model}" if several else entry, run) for entry, run in self._runs]
        board = Board(screen_for(progress_console()), self._asked.name, titles)
        session = self._session
        try:
            watch_suite(session.ledger, session.broker, [run for _, run in self._runs], board)
        except KeyboardInterrupt:
            note(f"the runs go on; rejoin with: python -m producer suite {self._file} --watch")
            raise click.exceptions.Exit(INTERRUPTED) from None

    def _echo_table(self, table: Table, more: Lines) -> None:
        """The table, what must be known of it, and `more`."""
        click.echo()
        echo_figures(table)
        click.echo()
        why: Lines = []
        for each in [each for each in table.cells if each.failed][:MOST_FAILED]:
            why += failed_lines(each.run.run_id, Failures.of(self._session.ledger.results(each.run.run_id)))
        echo_lines([*figure_lines(table), *why, *more])
