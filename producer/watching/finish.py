"""Watches a run to its end, exports it and prints the results."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from contract.commands import INTERRUPTED, note
from contract.ledger import Counts, Run, RunState
from contract.verdict import Outcome
from producer.bar import progress_console, reading
from producer.export.formats import again_in
from producer.export.results import Exported, export
from producer.export.summary import Summary
from producer.export.summary_json import summary_json, times_json
from producer.options import CANCELLED, SOME_FAILED, again_to
from producer.output import echo_json, echo_lines
from producer.session import Session
from producer.stats import Tally
from producer.watching.screens import screen_for
from producer.watching.summary_lines import summary_lines
from producer.watching.unserved import workers_of
from producer.watching.watch import Watcher, watch

__all__ = ["export_and_print", "export_run", "finish", "print_results", "wait_for"]


def wait_for(session: Session, run: Run, then: str = "") -> Counts:
    """Show the run's progress on stderr until it is settled or cancelled.

    Ctrl-C exits with 130 and does not affect the run. `then` are the options of `watch` that would do what this command
    would have done afterwards.
    """
    watcher = Watcher(session.ledger, session.broker, run, screen_for(progress_console()))
    try:
        return watch(watcher)
    except KeyboardInterrupt:
        paused = f"stays paused until: python -m producer resume {run.run_id}"
        what_it_does = paused if watcher.state is RunState.PAUSED else "continues"
        note(f"the run {what_it_does}; rejoin with: python -m producer watch {run.run_id}{then}")
        raise click.exceptions.Exit(INTERRUPTED) from None


def finish(session: Session, run: Run, out: Path, formats: Sequence[str], *, as_json: bool) -> None:
    """Watch the run, export it to `out`/<run> and print the results."""
    counts = wait_for(session, run, f" --export{again_in(formats)}{again_to(out)}")
    export_and_print(session, [run], out, formats, as_json=as_json)
    _exit_if_cancelled(counts)


def export_and_print(
    session: Session, runs: Sequence[Run], out: Path, formats: Sequence[str], *, as_json: bool
) -> None:
    """Export the current results of `runs` and print them, as JSON of several in a list.

    Exits with 3 if one is finished with failed questions.
    """
    printed: list[dict[str, Any]] = []
    tallies: list[Tally] = []
    for run in runs:
        done = export_run(session, run, out, formats)
        printed.append({**done.content, "files": [str(path) for path in done.files]})
        tallies.append(done.summary.tally)
        if not as_json:
            echo_lines(summary_lines(done.summary, session.ledger.engines(run.run_id), done.files))
    if as_json:
        echo_json(printed if len(runs) > 1 else printed[0])
    for tally in tallies:
        _exit_if_failed(tally)


def export_run(session: Session, run: Run, out: Path, formats: Sequence[str]) -> Exported:
    """Export the current results of `run` to `out`/<run>; what a reader of the files should know is said on stderr."""
    live = workers_of(run, session.live_workers())
    done = export(session.ledger, run.run_id, out / run.run_id, formats, live, session.weight(run.run_id))
    for remark in done.remarks:
        note(f"{run.run_id}: {remark}")
    return done


def print_results(session: Session, run: Run, out: Path, counts: Counts, *, as_json: bool) -> None:
    """Print the run's results and its exported files, if any.

    Exits with 4 if the run was cancelled, with 3 if it is finished with failed questions.
    """
    with reading(session.ledger, run, "results") as results:
        summary = Summary.of(run, counts.state, results)
    files, used = _exported(out / run.run_id, summary), session.ledger.engines(run.run_id)
    if as_json:
        content = summary_json(summary, workers_of(run, session.live_workers()), used, session.weight(run.run_id))
        del content["exported_at"]
        echo_json({**content, "files": [str(path) for path in files]})
    else:
        echo_lines(summary_lines(summary, used, files))
        if not files:
            note(f"export the results with: python -m producer export {run.run_id}{again_to(out)}")
    _exit_if_cancelled(counts)
    _exit_if_failed(summary.tally)


def _exported(folder: Path, summary: Summary) -> list[Path]:
    """Return the files of an export in `folder`, if it is up to date with the ledger.

    An export made in mid-run, before failed questions were asked again, or of a purged run of that id has other
    verdicts.
    """
    summary_file = folder / "summary.json"
    try:
        there = json.loads(summary_file.read_bytes())
    except (OSError, ValueError):
        return []
    now = {**summary.tally.to_json(), **times_json(summary)}
    counted = ("settled", "outcomes", "first_settled_at", "last_settled_at")
    if not isinstance(there, dict) or any(there.get(name) != now[name] for name in counted):
        return []
    results = [path for name in there.get("files", ()) if (path := folder / str(name)).exists()]
    return [*results, summary_file] if results else []


def _exit_if_cancelled(counts: Counts) -> None:
    if not counts.finished:
        raise click.exceptions.Exit(CANCELLED)


def _exit_if_failed(tally: Tally) -> None:
    if tally.count(Outcome.FAILED) and not tally.unsettled:
        raise click.exceptions.Exit(SOME_FAILED)
