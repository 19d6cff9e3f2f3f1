"""`python -m producer enqueue`: the command that creates runs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Self

import click

from contract.commands import note
from contract.engine_info import describe_differences
from contract.errors import RunConfigError
from contract.ledger import Run
from contract.names import LAST, is_request
from contract.priority import Priority
from contract.verdict import Outcome
from contract.wording import number
from producer.engine_differences import differs_json, not_those_running
from producer.export.files import refuse_unwritable
from producer.export.formats import formats_option, refuse_unused
from producer.intake.options import file_argument, how_to_read, reading_options, selection_of, selection_options
from producer.intake.qrels import Qrels
from producer.options import KEEPS_PRIORITY, again_to, as_json, folder, priority_option, run_config_options, to_weight
from producer.output import Lines, echo_json, echo_lines, optional_line
from producer.question_view import key_shown, shown_prompts
from producer.readers import Source, opened, refuse_missing
from producer.rejected import rejected_lines, write_rejected
from producer.runs.earlier_runs import about_namesake, asked_already
from producer.runs.plan_lines import plan_json, plan_lines
from producer.runs.plan_warnings import plan_warnings
from producer.runs.planning import Plan, afresh, plan
from producer.runs.reuse import Earlier
from producer.runs.runconfig import load_run_config
from producer.runs.submit import State, Submitted, explaining_purge, submit
from producer.runs.unanswerable import refuse_unanswerable, worker_doubts
from producer.session import Session
from producer.watching.finish import finish
from producer.watching.status import priority_lines, queue_lines, queues_json, workers_line
from producer.watching.unserved import workers_of

__all__ = ["enqueue"]


@dataclass(frozen=True, slots=True)
class _How:
    """The options that control what happens after the file has been read."""

    priority: Priority | None
    weight: int | None
    fresh: bool
    reuse: str | None
    dry_run: bool
    watch: bool
    formats: tuple[str, ...]
    out: Path
    as_json: bool

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Self:
        """Return those of `options`."""
        return cls(**{each.name: options[each.name] for each in fields(cls)})


@click.command(short_help="Enqueue the questions of FILE: JSON, CSV, Parquet, a folder, a dataset.")
@file_argument
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
    help="Relevance judgements, passages by question id: BEIR's TSV, TREC's columns, or JSON Lines.",
)
@click.option(
    "--no-rag", is_flag=True, help="Closed book: no retrieval, and the questions' contexts only if --set asks for them."
)
@click.option("--skip-bad", is_flag=True, help="Skip bad rows and write them to RESULTS/<run>/rejected.jsonl.")
@click.option("--fresh", is_flag=True, help="Ask the same questions again, as a separate run.")
@click.option(
    "--reuse",
    metavar="RUN",
    help="Take over the answers that RUN has to the same prompts; ask only the other questions.",
)
@click.option("--dry-run", is_flag=True, help="Check everything and show the first prompt; write nothing.")
@click.option("--watch", is_flag=True, help="Watch until the run is settled, then export it.")
@formats_option("Format in which --watch exports the run")
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
    **rest: Any,
) -> None:
    """Enqueue the questions of FILE: JSON, JSON Lines, CSV, TSV or Parquet, also packed (gz, zst, zip); a folder or zip
    of such files; a Hugging Face dataset (hf:NAME, or its folder); or - for standard input. The layout is detected from
    the content.

    The same questions asked the same way under the same name (by default made of file, model and mode) are the same
    run: enqueuing them again resumes it, even if it was cancelled.
    """
    overrides += (f"model={json.dumps(model)}",) if model else ()  # in quotes: it is read as YAML
    if no_rag:  # --set rag.use_context_field=true is more specific
        overrides = ("rag.use_context_field=false", *overrides, "rag.enabled=false")
    run_config = load_run_config(config, overrides)
    reading, selection, how = how_to_read(rest), selection_of(rest, run_config.seed), _How.of(rest)
    refuse_unused(how.formats, how.watch, "--watch")
    judged = Qrels.read(qrels) if qrels else None
    if how.fresh and how.reuse is not None:
        raise click.UsageError("--fresh asks all questions again, --reuse only some of them: give one of the two.")
    reused = None if how.reuse is None else (how.reuse, session.run(how.reuse))
    refuse_missing(Source(Path(file), file))
    if not how.dry_run:
        session.reach()
    with opened(file, reading) as source:
        planned = plan(source, run_config, session.settings, selection, name=name, skip_bad=skip_bad, qrels=judged)
        if judged:
            note(judged.describe(planned.survey.digest.count))
        _carry_out(planned, session, how, _earlier(planned, session, *reused) if reused else None)


def _earlier(planned: Plan, session: Session, name: str, reused: Run) -> Earlier:
    """Return the answers of the run `reused`, which the user called `name`.

    If that is `last`, and the newest run is the planned one, as this command was interrupted and is repeated, they are
    those of the run before it. Raises RunConfigError if none of them can be those of the planned run.
    """
    own = planned.run_id
    if reused.run_id == own and name.lower() == LAST:
        others = [each for each in session.ledger.run_ids() if each != own and not is_request(each)]
        reused = session.ledger.run(others[0]) if others else reused
    if reused.run_id == own:
        raise RunConfigError(
            f"--reuse: {own} is the run that this command asks for.",
            hint="Leave --reuse out to go on with it, or name an earlier run.",
        )
    return Earlier(session.ledger, reused, planned.spec)


def _carry_out(planned: Plan, session: Session, how: _How, earlier: Earlier | None) -> None:
    live = [] if how.dry_run else session.broker.all_workers()
    for warning in [*plan_warnings(planned), *worker_doubts(planned.spec, session.settings, live)]:
        note(warning)
    if how.dry_run:
        _echo_dry_run(planned, how, earlier)
        return
    if how.fresh:
        planned = afresh(planned, session.ledger)
    refuse_unanswerable([planned], session.ledger, live)
    if how.watch or planned.survey.troubles.count:
        refuse_unwritable(how.out / planned.run_id)
    note(f"{number(planned.survey.digest.count, 'question')} checked; writing to {session.settings.redis_place}")
    skipped = rejected_lines(planned.survey)
    while True:
        done = submit(planned, session.ledger, session.broker, how.priority, how.weight, earlier, only_new=how.fresh)
        if done.state is not State.TAKEN:
            break
        planned = afresh(planned, session.ledger)  # another command asked the same afresh, and was faster
    rejected = write_rejected(skipped, how.out / planned.run_id)
    if not (how.as_json and how.watch):
        with explaining_purge(session.ledger, [done.run.run_id]):
            _echo(planned, done, session, how, rejected, earlier)
    if how.watch:
        finish(session, done.run, how.out, how.formats, as_json=how.as_json)


def _echo(
    planned: Plan, done: Submitted, session: Session, how: _How, rejected: Path | None, earlier: Earlier | None
) -> None:
    run, live = done.run, session.broker.all_workers()
    reuse_by = "" if earlier else "--reuse {run}"
    differs = "" if how.fresh else about_namesake(planned, done, session.ledger, reuse_by=reuse_by)
    already = [] if how.fresh else asked_already([done], session.ledger).get(run.run_id, [])
    others = not_those_running(run, session.ledger.engines(run.run_id), live)
    if how.as_json:
        more = {
            "priority": run.priority.name.lower(),
            "already_asked_by": already,
            "differs": differs or None,
            "other_engines": differs_json(others),
            "failed": session.ledger.counts(run.run_id).of(Outcome.FAILED),
            "rejected": str(rejected) if rejected else None,
            "queues": queues_json(run, session.broker),
            "workers": [each.name for each in workers_of(run, live)],
        }
        echo_json({**done.to_json(), **plan_json(planned, run), **more})
        return
    settled = done.state is State.SETTLED
    lines = [
        ("run", run.run_id),
        ("state", done.describe()),
        *_reused_lines(earlier),
        *_engines_lines(others, earlier),
        *_already_lines(already),
        *optional_line("differs", differs),
        *_failed_lines(done, session),
        *_priority_lines(done, how.priority),
        *plan_lines(planned, run, rejected),
        *queue_lines(run, session.broker),
        ("workers", workers_line(run, settled, live, session.broker)),
    ]
    if not how.watch:
        rejoin = f"export {run.run_id}{again_to(how.out)}" if settled else f"watch {run.run_id}"
        lines.append(("next", f"python -m producer {rejoin}"))
    echo_lines(lines)


def _reused_lines(earlier: Earlier | None) -> Lines:
    return [("reused", earlier.describe())] if earlier and earlier.looked else []


def _engines_lines(others: Mapping[str, Sequence[str]], earlier: Earlier | None) -> Lines:
    """Return a warning if the running model is not the one that gave the answers, as after a change of its weights."""
    if not others:
        return []
    how = "--fresh instead of --reuse" if earlier else "--fresh"
    told = f"those that run now differ from those that answered, in {describe_differences(others)}"
    return [("engines", f"{told}; {how} asks all questions again")]


def _already_lines(already: Sequence[str]) -> Lines:
    what = "the same questions asked in the same way under another name"
    return [("already", f"{', '.join(already)}: {what}")] if already else []


def _failed_lines(done: Submitted, session: Session) -> Lines:
    """Return how to ask failed questions again; enqueuing a settled run once more does not."""
    failed = session.ledger.counts(done.run.run_id).of(Outcome.FAILED) if done.state is State.SETTLED else 0
    again = f"python -m producer requeue {done.run.run_id} --failed"
    return [("failed", f"{number(failed, 'question')}; to ask again: {again}")] if failed else []


def _priority_lines(done: Submitted, asked: Priority | None) -> Lines:
    run = done.run
    if asked is None or asked is run.priority:
        return priority_lines(run)
    still = f"still {run.priority.name.lower()}, as first enqueued"
    if done.state is State.SETTLED:  # nothing of it is queued
        return [("priority", still)]
    rest = "only what was sent now has another" if done.sent else KEEPS_PRIORITY
    return [("priority", f"{still}; {rest}")]


def _echo_dry_run(planned: Plan, how: _How, earlier: Earlier | None) -> None:
    run = planned.run()
    if earlier:
        earlier.count(planned.survey.questions())
    first = planned.survey.digest.first
    assert first is not None, "a survey without a question is refused"
    prompt = shown_prompts(run.spec, first, None)[0]
    if how.as_json:
        echo_json(
            {
                "run_id": None if how.fresh else run.run_id,
                "state": "dry run",
                "reused": earlier.reused if earlier else 0,
                **plan_json(planned, run),
                "spec": run.spec.model_dump(mode="json"),
                "prompt": prompt,
                "key": first.right,
            }
        )
        return
    # The ledger knows which numbers are free, but a dry run works without it.
    free = f", or {run.run_id}-2 and so on if there is one already" if how.fresh else ""
    echo_lines(
        [
            ("run", run.run_id + free),
            ("state", "dry run: nothing was written"),
            *_reused_lines(earlier),
            *plan_lines(planned, run),
            ("prompt", f"for {first.id}:\n{prompt}"),
            ("key", key_shown(first)),
        ],
        verbatim=True,
    )
