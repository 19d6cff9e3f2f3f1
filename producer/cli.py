"""The command line: it parses, calls, and prints. Results go to stdout, progress and remarks to stderr."""

from __future__ import annotations

import os
from pathlib import Path

import click

from contract import logs
from contract.settings import PREFIX
from contract.verdict import Outcome
from producer.compare import compare
from producer.control import cancel, pause, purge, requeue, resume, weight
from producer.engine_differences import engine_lines
from producer.enqueue import enqueue
from producer.export.columns import iso
from producer.export.files import refuse_unwritable
from producer.export.formats import FORMATS
from producer.http.serve import serve
from producer.index import index
from producer.inspect import inspect
from producer.options import Commands, as_json, folder, note, run_argument
from producer.output import chance, echo_json, echo_lines, echo_table
from producer.question_view import question_json, question_lines
from producer.report import report
from producer.session import Session
from producer.stats import Tally
from producer.suite import suite
from producer.watching.finish import export_and_tell, finish, stay, tell
from producer.watching.status import status_json, status_lines

__all__ = ["main"]


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--redis", metavar="URL", help=f"Redis to use, whatever {PREFIX}REDIS_URL says.")
@click.option("--deploy", type=click.Path(path_type=Path), help="Settings: a file of configs/deploy/.")
@click.pass_context
def main(ctx: click.Context, redis: str | None, deploy: Path | None) -> None:
    """Score language models on multiple-choice questions through a durable queue.

    RUN is a run's id or the name it was given, the beginning of one, or `last`.
    """
    logs.set_up()
    if redis:
        # The environment lies over every other layer, so this is where a flag must be to win.
        os.environ[f"{PREFIX}REDIS_URL"] = redis
    session = ctx.ensure_object(Session)
    session.deploy = deploy or session.deploy
    ctx.call_on_close(session.close)


for command in (enqueue, suite, inspect, compare, report, index, pause, resume, cancel, requeue, weight, purge, serve):
    main.add_command(command)


@main.command()
@run_argument(required=False)
@as_json
@click.pass_obj
def status(session: Session, run_name: str, as_json: bool) -> None:
    """How far RUN is (default: the newest)."""
    run = session.run(run_name)
    counts = session.ledger.counts(run.run_id)
    if as_json:
        echo_json(status_json(run, counts, session.broker))
    else:
        echo_lines([*status_lines(run, counts, session.broker), *engine_lines(session.ledger, run)])


@main.command("watch")
@run_argument(required=False)
@click.option("--export", "then_export", is_flag=True, help="Write the results once the run is settled.")
@folder
@as_json
@click.pass_obj
def watch_(session: Session, run_name: str, then_export: bool, out: Path, as_json: bool) -> None:
    """Stay until RUN (default: the newest) is settled; what got lost on the way is sent again."""
    run = session.run(run_name)
    if then_export:
        refuse_unwritable(out / run.run_id)
        finish(session, run, out, as_json=as_json)
    else:
        counts = stay(session, run)
        tell(session, run, out, counts, as_json=as_json)


@main.command("export")
@run_argument(required=False)
@click.option(
    "--format",
    "formats",
    type=click.Choice(sorted(FORMATS)),
    multiple=True,
    default=("csv",),
    show_default=True,
    help="Results in this format; give it again for more than one.",
)
@folder
@as_json
@click.pass_obj
def export_(session: Session, run_name: str, formats: tuple[str, ...], out: Path, as_json: bool) -> None:
    """Write the results of RUN (default: the newest) as they stand, with a summary beside them.

    csv opens in a spreadsheet; parquet has the same columns with types; jsonl has the whole question and verdict;
    lm-eval writes a folder as lm-evaluation-harness does with --log_samples, for tools that read those.
    """
    export_and_tell(session, session.run(run_name), out, tuple(dict.fromkeys(formats)), as_json=as_json)


@main.command()
@as_json
@click.pass_obj
def runs(session: Session, as_json: bool) -> None:
    """All runs, newest first."""
    found = list(session.ledger.standings(session.ledger.runs()))
    if as_json:
        echo_json(
            [
                {
                    "run_id": run.run_id,
                    "created_at": iso(run.created_at),
                    "source": run.source,
                    "model": run.spec.model,
                    "mode": run.spec.mode,
                    "state": counts.standing,
                    **Tally.of_counts(counts, run.without_key).to_json(),
                }
                for run, counts in found
            ]
        )
        return
    if not found:
        note("There is no run yet. Make one: python -m producer enqueue FILE")
        return
    rows = []
    for run, counts in found:
        share = Tally.of_counts(counts, run.without_key).over_all()
        failed = f", {counts.of(Outcome.FAILED):,} failed" if counts.of(Outcome.FAILED) else ""
        settled = f"{counts.settled:,}/{counts.total:,}{failed}"
        accuracy = f"{share.value:.3f}" if share else "-"
        created = iso(run.created_at)[:19]
        how = (run.spec.model, run.spec.mode, run.source)
        rows.append((run.run_id, created, counts.standing, settled, accuracy, chance(run), *how))
    echo_table(("run", "created (UTC)", "state", "settled", "accuracy", "chance", "model", "mode", "source"), rows)


@main.command()
@run_argument(required=True)
@click.argument("question_id")
@as_json
@click.pass_obj
def show(session: Session, run_name: str, question_id: str, as_json: bool) -> None:
    """One question of RUN: its choices by score, its verdict, and the prompt the model saw."""
    run = session.run(run_name)
    question, verdict = session.ledger.result(run.run_id, question_id)
    if as_json:
        echo_json(question_json(run, question, verdict))
    else:
        echo_lines(question_lines(run, question, verdict))
