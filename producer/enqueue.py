"""`python -m producer enqueue`: the command that creates runs."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from contract.commands import note
from contract.index import read_manifest
from contract.ledger import Run
from contract.priority import Priority
from contract.wording import number
from producer.export.files import refuse_unwritable
from producer.export.results import write_rejected
from producer.intake.options import describe_reading, how_to_read, reading_options, selection_of, selection_options
from producer.intake.qrels import Qrels
from producer.intake.survey import rejected_rows
from producer.options import as_json, folder, priority_option, run_config_options, to_priority, to_weight
from producer.output import Lines, chance, echo_json, echo_lines
from producer.question_view import key_shown, shown_prompts
from producer.readers import Source, opened, refuse_missing
from producer.runs.asked import how_asked
from producer.runs.gold_sources import Named, named_sources
from producer.runs.long_queries import LongQueries, long_queries
from producer.runs.plan_warnings import plan_warnings
from producer.runs.runconfig import RunConfig, load_run_config
from producer.runs.submit import Plan, State, Submitted, afresh, asked_already, namesake, plan, submit
from producer.runs.unanswerable import refuse_unanswerable
from producer.session import Session
from producer.watching.finish import finish
from producer.watching.status import queue_lines, queues_json, workers_line

__all__ = ["enqueue"]


@dataclass(frozen=True, slots=True)
class _How:
    """The options that control what happens after the file has been read."""

    priority: Priority | None
    weight: int | None
    fresh: bool
    dry_run: bool
    watch: bool
    out: Path
    as_json: bool
    #: The configuration as the user wrote it: it names the examples file and the index; the run holds their content.
    asked: RunConfig


@click.command(short_help="Enqueue the questions of FILE: JSON, CSV, Parquet, a folder, a dataset.")
@click.argument("file")
@run_config_options("Run configuration file, as in configs/runs/.")
@click.option("--model", default="", metavar="NAME", help="The model: the name that workers serve it under, or its id.")
@click.option("--run", "name", default="", metavar="NAME", help="Name of the run [default: from file, model and mode].")
@priority_option
@click.option("--weight", type=to_weight, help="Turns for each turn of other runs with the same priority [default: 1].")
@reading_options
@selection_options
@click.option(
    "--qrels",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Relevance judgments, passages by question id: BEIR's TSV, TREC's columns, or JSON Lines.",
)
@click.option("--no-rag", is_flag=True, help="Disable retrieval, overriding the configuration: closed book.")
@click.option("--skip-bad", is_flag=True, help="Skip bad rows and write them to RESULTS/<run>/rejected.jsonl.")
@click.option("--fresh", is_flag=True, help="Ask the same questions again, as a separate run.")
@click.option("--dry-run", is_flag=True, help="Check everything and show the first prompt; write nothing.")
@click.option("--watch", is_flag=True, help="Watch until the run is settled, then export it.")
@folder
@as_json
@click.pass_obj
def enqueue(
    session: Session,
    /,
    file: str,
    config: Path | None,
    overrides: tuple[str, ...],
    model: str,
    name: str,
    qrels: Path | None,
    no_rag: bool,
    skip_bad: bool,
    priority: str | None,
    weight: int | None,
    fresh: bool,
    dry_run: bool,
    watch: bool,
    out: Path,
    as_json: bool,
    **rest: Any,
) -> None:
    """Enqueue the questions of FILE: JSON, JSON Lines, CSV, TSV or Parquet, also packed (gz, zst, zip); a folder or zip
    of such files; a Hugging Face dataset (hf:NAME, or its folder); or - for standard input. The layout is detected from
    the content.

    The same questions asked the same way under the same name (by default made of file, model and mode) are the same
    run: enqueuing them again resumes it, even if it was cancelled.
    """
    overrides += (f"model={json.dumps(model)}",) if model else ()  # in quotes: it is read as YAML
    asked = load_run_config(config, (*overrides, "rag.enabled=false") if no_rag else overrides)
    how, selection = how_to_read(rest), selection_of(rest, asked.seed)
    judged = Qrels.read(qrels) if qrels else None
    refuse_missing(Source(Path(file), file))
    if not dry_run:
        session.reach()
    with opened(file, how) as source:
        planned = plan(source, asked, session.settings, selection, name=name, skip_bad=skip_bad, qrels=judged)
        if judged:
            note(judged.describe(planned.survey.digest.count))
        afterwards = _How(
            priority=to_priority(priority) if priority else None,
            weight=weight,
            fresh=fresh,
            dry_run=dry_run,
            watch=watch,
            out=out,
            as_json=as_json,
            asked=asked,
        )
        _carry_out(planned, session, afterwards)


def _carry_out(planned: Plan, session: Session, how: _How) -> None:
    for warning in plan_warnings(planned):
        note(warning)
    if how.dry_run:
        _echo_dry_run(planned, how)
        return
    if how.fresh:
        planned = afresh(planned, session.ledger)
    refuse_unanswerable([planned], session.ledger, session.broker)
    if how.watch:
        refuse_unwritable(how.out / planned.run_id)
    rejected = None
    if planned.survey.troubles.count:
        rejected = write_rejected(rejected_rows(planned.survey), how.out / planned.run_id)
    note(f"{number(planned.survey.digest.count, 'question')} checked; writing to {session.settings.redis_place}")
    done = submit(planned, session.ledger, session.broker, how.priority, how.weight)
    if not (how.as_json and how.watch):
        _echo(planned, done, session, how, rejected)
    if how.watch:
        finish(session, done.run, how.out, as_json=how.as_json)


def _echo(planned: Plan, done: Submitted, session: Session, how: _How, rejected: Path | None) -> None:
    if how.as_json:
        more = {"rejected": str(rejected) if rejected else None, "queues": queues_json(done.run, session.broker)}
        echo_json({**done.to_json(), **_rows_json(planned), **_retrieval_json(planned, how), **more})
        return
    settled = done.state is State.SETTLED
    lines = [
        ("run", done.run.run_id),
        ("state", done.describe()),
        *([] if how.fresh else _asked_already(done, session)),
        *([] if how.fresh else _namesake(planned, done, session)),
        *_priority_lines(done.run, how.priority),
        *_row_lines(planned, done.run, rejected),
        *_retrieval_lines(planned, how),
        ("asked", how_asked(planned.spec)),
        *_example_lines(planned, how.asked),
        *queue_lines(done.run, session.broker),
        ("workers", workers_line(done.run, settled, session.broker)),
    ]
    if not how.watch:
        lines.append(("next", f"python -m producer {'export' if settled else 'watch'} {done.run.run_id}"))
    echo_lines(lines)


def _asked_already(done: Submitted, session: Session) -> Lines:
    what = "the same questions asked in the same way under another name"
    others = asked_already([done], session.ledger).values()
    return [("already", f"{', '.join(each)}: {what}") for each in others]


def _namesake(planned: Plan, done: Submitted, session: Session) -> Lines:
    if (found := namesake(planned, done, session.ledger)) is None:
        return []
    other, differ = found
    parts = ", ".join("questions" if each == "questions_digest" else each for each in differ)
    return [("differs", f"in {parts} from {other}, the last run of this name: all questions are asked")]


def _priority_lines(run: Run, asked: Priority | None) -> Lines:
    if asked is None or asked is run.priority:
        return []
    return [("priority", f"still {run.priority.name.lower()}, as first enqueued; only what was sent now has another")]


def _row_lines(planned: Plan, run: Run, rejected: Path | None) -> Lines:
    found = planned.survey
    digest = found.digest
    more = [
        f", {shown}"
        for count, shown in (
            (digest.keys.without_key, f"{digest.keys.without_key:,} without a key"),
            (digest.keys.several_right, f"{digest.keys.several_right:,} with several right choices"),
            (planned.taken.repeated, number(planned.taken.repeated, "duplicate")),
        )
        if count
    ]
    # Every figure depends on how the key was read, and an index may be 0-based or 1-based.
    answers = "" if not digest.keys.keyed else f", answers {found.file.way.value}"
    lines = [
        ("file", f"{run.source}: {found.rows_shown()}"),
        ("read", describe_reading(found.file, digest.count, digest.keys.choices) + answers),
        ("fields", found.file.fields.describe()),
        ("questions", f"{run.questions:,}{''.join(more)}; chance {chance(run.chance)}"),
    ]
    return lines + ([("skipped", f"{', '.join(found.troubles.by_kind())}; see {rejected}")] if rejected else [])


def _example_lines(planned: Plan, config: RunConfig) -> Lines:
    return [("examples", config.few_shot.describe_file(planned.survey.file))] if planned.spec.few_shot else []


def _named_sources(planned: Plan, how: _How) -> Named | None:
    """Look up the sources that the questions name, if passages are retrieved for them."""
    rag = planned.spec.rag
    return named_sources(planned.survey.bodies, Path(how.asked.rag.index), rag.question_hashes) if rag else None


def _long_queries(planned: Plan, how: _How) -> LongQueries | None:
    """Measure what is searched for by vectors, if anything is."""
    if planned.spec.rag is None:
        return None
    return long_queries(planned.survey.bodies, planned.spec, read_manifest(Path(how.asked.rag.index)).encoder)


def _retrieval_lines(planned: Plan, how: _How) -> Lines:
    return [
        line for each in (_named_sources(planned, how), _long_queries(planned, how)) if each for line in each.lines()
    ]


def _retrieval_json(planned: Plan, how: _How) -> dict[str, Any]:
    found = {"sources": _named_sources(planned, how), "long_queries": _long_queries(planned, how)}
    return {name: each.to_json() for name, each in found.items() if each}


def _rows_json(planned: Plan) -> dict[str, Any]:
    found = planned.survey
    return {
        **found.rows_json(),
        "without_key": found.digest.keys.without_key,
        "several_right": found.digest.keys.several_right,
        "repeated": planned.taken.repeated,
    }


def _echo_dry_run(planned: Plan, how: _How) -> None:
    run = planned.run()
    first = planned.survey.digest.first
    assert first is not None, "a survey without a question is refused"
    prompt = shown_prompts(run.spec, first, None)[0]
    if how.as_json:
        echo_json(
            {
                "run_id": run.run_id,
                "state": "dry run",
                "source": run.source,
                "questions": run.questions,
                "chance": run.chance,
                **_rows_json(planned),
                **_retrieval_json(planned, how),
                "spec": run.spec.model_dump(mode="json"),
                "prompt": prompt,
                "key": first.right,
            }
        )
        return
    echo_lines(
        [
            ("run", run.run_id),
            ("state", "dry run: nothing was written"),
            *_row_lines(planned, run, None),
            *_retrieval_lines(planned, how),
            ("asked", how_asked(run.spec)),
            *_example_lines(planned, how.asked),
            ("prompt", f"for {first.id}:\n{prompt}"),
            ("key", key_shown(first)),
        ]
    )
