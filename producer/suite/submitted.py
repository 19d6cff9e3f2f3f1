"""What is said of a suite's runs when they have been submitted: their states, and what a user may not have meant."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from contract.engine_info import describe_differences
from contract.fleet import WorkerRecord
from contract.ledger import Ledger
from producer.engine_differences import differs_json, not_those_running
from producer.output import Lines, echo_lines, echo_table, optional_line
from producer.runs.earlier_runs import about_namesake, asked_already
from producer.runs.submit import Submitted
from producer.session import Session
from producer.suite.plan import Planned
from producer.suite.render import first_and_more
from producer.suite.table import Table
from producer.watching.unserved import remedy, unserved_queues

__all__ = ["echo_submitted", "submitted_json"]

#: Each planned run, with what came of its submission.
Submissions: TypeAlias = Sequence[tuple[Planned, Submitted]]


def echo_submitted(session: Session, submitted: Submissions, *, reuse: bool) -> None:
    """Print the state of each run, and what the user may not expect of it; `reuse`: whether `--reuse` was given."""
    rows = ((each.entry.name, each.model, done.run.run_id, done.describe()) for each, done in submitted)
    echo_table(("entry", "model", "run", "state"), rows)
    ledger, live = session.ledger, session.broker.all_workers()
    reuse_by = "" if reuse else "--reuse"
    lines = [
        *_already_lines(submitted, ledger, reuse_by),
        *_differs_lines(submitted, ledger, reuse_by),
        *_engines_lines(submitted, ledger, live),
        *optional_line("workers", _without_workers(submitted, session, live)),
    ]
    if lines:
        echo_lines(lines)


def _already_lines(submitted: Submissions, ledger: Ledger, reuse_by: str) -> Lines:
    found = asked_already((done for _, done in submitted), ledger)
    what = "asks the same questions in the same way as"
    how = f"; to take over those answers, repeat this command with {reuse_by}" if reuse_by else ""
    return [("already", f"{run_id} {what} {', '.join(others)}{how}") for run_id, others in found.items()]


def _differs_lines(submitted: Submissions, ledger: Ledger, reuse_by: str) -> Lines:
    found = ((done.run.run_id, about_namesake(of.plan, done, ledger, reuse_by=reuse_by)) for of, done in submitted)
    return [("differs", f"{run_id}: {how}") for run_id, how in found if how]


def _engines_lines(submitted: Submissions, ledger: Ledger, live: Sequence[WorkerRecord]) -> Lines:
    """Return which runs have answers of engines other than those that run now, such as after a change of weights."""
    runs: dict[str, list[str]] = {}
    for run_id, differs in _other_engines(submitted, ledger, live).items():
        runs.setdefault(describe_differences(differs), []).append(run_id)
    told = "those that run now differ from those that answered"
    how = "another name of the suite, without --reuse, asks all questions again"
    return [("engines", f"{told} {first_and_more(names)}, in {differ}; {how}") for differ, names in runs.items()]


def _other_engines(
    submitted: Submissions, ledger: Ledger, live: Sequence[WorkerRecord]
) -> dict[str, dict[str, list[str]]]:
    """Return the runs with answers of engines other than those that run now, each with what differs."""
    runs = [done.run for _, done in submitted]
    found = ((run.run_id, not_those_running(run, ledger.engines(run.run_id), live)) for run in runs)
    return {run_id: differs for run_id, differs in found if differs}


def _without_workers(submitted: Submissions, session: Session, live: Sequence[WorkerRecord]) -> str:
    """Return how to start workers for queues of unfinished runs that no worker serves; empty if there are none."""
    waiting = [done.run for _, done in submitted if not session.ledger.counts(done.run.run_id).finished]
    unserved = list(dict.fromkeys(queue for run in waiting for queue in unserved_queues(run, live)))
    if not unserved:
        return ""
    return f"no worker serves {' and '.join(unserved)}; {remedy(unserved, live, session.broker)}"


def submitted_json(session: Session, submitted: Submissions, table: Table) -> dict[str, Any]:
    """Return `table` with the state of each run for `--json`."""
    content, others = table.to_json(), _other_engines(submitted, session.ledger, session.broker.all_workers())
    for entry, (_, done) in zip(content["runs"], submitted, strict=True):
        entry["submitted"] = done.state.value
        entry["sent"], entry["messages"], entry["reused"] = done.sent, done.messages, done.reused
        entry["other_engines"] = differs_json(others.get(done.run.run_id, {}))
    return content
