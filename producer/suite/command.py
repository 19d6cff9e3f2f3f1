"""The command `python -m producer suite`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from contract.commands import note
from contract.fleet import WorkerRecord
from contract.priority import Priority
from contract.settings import Settings
from contract.wording import number
from producer.export.files import refuse_unwritable
from producer.export.formats import formats_option, refuse_unused
from producer.options import CANCELLED, SOME_FAILED, as_json, folder, priority_option
from producer.output import echo_json, echo_lines, echo_table, labelled
from producer.rejected import rejected_lines, write_rejected
from producer.runs.asked import how_asked
from producer.runs.earlier_runs import answers_to_reuse
from producer.runs.plan_warnings import plan_warnings
from producer.runs.reuse import Earlier
from producer.runs.submit import Submitted, explaining_purge, submit
from producer.runs.unanswerable import refuse_unanswerable, worker_doubts
from producer.session import Session
from producer.suite.config import Suite, load_suite
from producer.suite.export import folder_of
from producer.suite.plan import (
    Planned,
    as_fields,
    differently_judged,
    one_of_each_entry,
    planned,
    share_questions,
    sharing_index_name,
)
from producer.suite.running import Work
from producer.suite.submitted import echo_submitted, submitted_json

__all__ = ["suite"]


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@priority_option
@click.option(
    "--reuse",
    is_flag=True,
    help="For each run, take over the answers of the last one with its name and settings, as `enqueue --reuse` does; if"
    " there is none, of one that asked the same under another name.",
)
@click.option("--dry-run", is_flag=True, help="Check everything and list the runs; write nothing.")
@click.option("--watch", is_flag=True, help="Watch until all runs are settled, then export them and write the table.")
@formats_option("Format in which --watch exports the runs")
@folder
@as_json
@click.pass_obj
def suite(
    session: Session,
    file: Path,
    priority: Priority | None,
    reuse: bool,
    dry_run: bool,
    watch: bool,
    formats: tuple[str, ...],
    out: Path,
    as_json: bool,
) -> None:
    """Enqueue the runs of a suite FILE, as in configs/suites/: several question sets and models, one table.

    Everything is checked before anything is written. The same command resumes an unfinished suite, and prints the table
    of a settled one without sending anything. With --watch the table is written to RESULTS/<suite>/ as CSV, JSON and
    Markdown.
    """
    refuse_unused(formats, watch, "--watch")
    asked = load_suite(file)
    if not dry_run:
        session.reach()
    with planned(asked, file, session.settings) as runs:
        live = [] if dry_run else session.broker.all_workers()
        _warn(runs, session.settings, live)
        earlier = [answers_to_reuse(each.plan, session.ledger) if reuse else None for each in runs]
        if dry_run:
            _echo_dry_run(asked, runs, earlier, reuse=reuse, as_json=as_json)
            return
        if watch:
            _refuse_unwritable(asked, runs, out)
        refuse_unanswerable([each.plan for each in runs], session.ledger, live)
        shared = share_questions(runs)
        done = _submit(session, runs, priority, out, earlier)
    submitted = list(zip(runs, done, strict=True))
    in_ledger = [(each.entry.name, sent.run) for each, sent in submitted]
    work = Work(session, asked.name, file, in_ledger, out, formats, shared)
    with explaining_purge(session.ledger, [run.run_id for _, run in in_ledger]):
        if not as_json:
            echo_submitted(session, submitted, reuse=reuse)
        if not watch:
            table = work.table()
            if as_json:
                echo_json(submitted_json(session, submitted, table))
            else:
                work.echo_next(table)
    if watch:
        table = work.finish(as_json=as_json)
    if table.settled and any(each.failed for each in table.cells):
        raise click.exceptions.Exit(SOME_FAILED)
    if watch and not table.settled:
        raise click.exceptions.Exit(CANCELLED)


def _warn(runs: Sequence[Planned], settings: Settings, live: Sequence[WorkerRecord]) -> None:
    """Print each warning about a file, or about workers of a model, once, with the entries that it concerns."""
    found = [(each, [each.judged, *plan_warnings(each.plan)]) for each in one_of_each_entry(runs)]
    found += [(each, worker_doubts(each.plan.spec, settings, live)) for each in runs]
    concerned: dict[tuple[str, str], dict[str, None]] = {}
    for each, warnings in found:
        for warning in filter(None, warnings):
            concerned.setdefault((each.plan.survey.source.title, warning), {})[each.entry.name] = None
    for (_, warning), names in concerned.items():
        note(f"{', '.join(names)}: {warning}")
    for how in as_fields(warning for _, warning in concerned):
        note(how)
    for group in differently_judged(runs):
        why = "only those with the same are compared in pairs; give all the same, also an entry without retrieval"
        note(f"{', '.join(each.entry.name for each in group)}: the same questions with different qrels: {why}")
    for name, entries in sharing_index_name(runs).items():
        but = f"different indexes called {name!r}, of which a host's workers serve one"
        note(f"{', '.join(entries)}: {but}: build one into a folder with another name (`index -o`)")


def _refuse_unwritable(asked: Suite, runs: Sequence[Planned], out: Path) -> None:
    for directory in (folder_of(asked.name, out), *(out / each.plan.run_id for each in runs)):
        refuse_unwritable(directory)


def _submit(
    session: Session, runs: Sequence[Planned], priority: Priority | None, out: Path, earlier: Sequence[Earlier | None]
) -> list[Submitted]:
    for each in runs:
        if path := write_rejected(rejected_lines(each.plan.survey), out / each.plan.run_id):
            note(f"{each.entry.name}: {number(each.plan.survey.troubles.count, 'row')} skipped; see {path}")
    questions = sum(each.plan.survey.digest.count for each in runs)
    checked = f"{number(questions, 'question')} in {number(len(runs), 'run')} checked"
    note(f"{checked}; writing to {session.settings.redis_place}")
    return [
        submit(each.plan, session.ledger, session.broker, priority, earlier=answers)
        for each, answers in zip(runs, earlier, strict=True)
    ]


def _echo_dry_run(
    asked: Suite, runs: Sequence[Planned], earlier: Sequence[Earlier | None], *, reuse: bool, as_json: bool
) -> None:
    """Print what would be asked, and with `reuse` how many answers of `earlier` runs would be taken over."""
    for each, answers in zip(runs, earlier, strict=True):
        if answers:
            answers.count(each.plan.survey.questions())
    if as_json:
        told = [_dry_json(each, answers) for each, answers in zip(runs, earlier, strict=True)]
        echo_json({"suite": asked.name, "state": "dry run", "runs": told})
        return
    echo_table(("entry", "model", "run", "asked", "questions"), map(_dry_row, runs))
    questions = sum(each.plan.survey.digest.count for each in runs)
    size = f"{number(len(runs), 'run')}, {number(questions, 'question')}"
    lines = [("suite", asked.name), ("state", f"dry run: nothing was written; {size}")]
    if reuse:
        said = [answers.describe() if answers else "no run whose answers could be taken over" for answers in earlier]
        lines += labelled("reused", (f"{of.plan.run_id}: {how}" for of, how in zip(runs, said, strict=True)))
    echo_lines(lines)


def _dry_row(each: Planned) -> tuple[str, ...]:
    spec, found = each.plan.spec, each.plan.survey
    skipped = f", {found.troubles.count:,} skipped" if found.troubles.count else ""
    read = found.file.describe(found.digest.keys.choices)
    return each.entry.name, each.model, each.plan.run_id, how_asked(spec, brief=True), f"{read}{skipped}"


def _dry_json(each: Planned, earlier: Earlier | None) -> dict[str, Any]:
    run = each.plan.run()
    return {
        "entry": each.entry.name,
        "model": each.model,
        "run_id": run.run_id,
        "source": run.source,
        "questions": run.questions,
        "skipped": each.plan.survey.troubles.count,
        "chance": run.chance,
        "reused": earlier.reused if earlier else 0,
        "spec": run.spec.model_dump(mode="json"),
    }
