"""The command line: parses arguments, calls the implementation and prints. Results go to stdout, progress to stderr."""

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
from producer.watching.finish import export_and_print, finish, print_results, wait_for
from producer.watching.status import status_json, status_lines

__all__ = ["main"]


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--redis", metavar="URL", help=f"Redis URL; overrides {PREFIX}REDIS_URL.")
@click.option("--deploy", type=click.Path(path_type=Path), help="Deployment settings file, as in configs/deploy/.")
@click.pass_context
def main(ctx: click.Context, redis: str | None, deploy: Path | None) -> None:
    """Score language models on multiple-choice questions through a durable queue.

    RUN is a run's id or name, a unique prefix of either, or `last`.
    """
    logs.set_up()
    if redis:
        # The environment overrides every other layer, so a flag takes precedence only if it is set there.
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
    """Show the progress of RUN (default: the newest run)."""
    run = session.run(run_name)
    counts = session.ledger.counts(run.run_id)
    if as_json:
        echo_json(status_json(run, counts, session.broker))
    else:
        echo_lines([*status_lines(run, counts, session.broker), *engine_lines(session.ledger, run)])


@main.command("watch")
@run_argument(required=False)
@click.option("--export", "then_export", is_flag=True, help="Export the results once the run is settled.")
@folder
@as_json
@click.pass_obj
def watch_(session: Session, run_name: str, then_export: bool, out: Path, as_json: bool) -> None:
    """Watch RUN (default: the newest run) until it is settled; lost questions are sent again."""
    run = session.run(run_name)
    if then_export:
        refuse_unwritable(out / run.run_id)
        finish(session, run, out, as_json=as_json)
    else:
        counts = wait_for(session, run)
        print_results(session, run, out, counts, as_json=as_json)


@main.command("export")
@run_argument(required=False)
@click.option(
    "--format",
    "formats",
    type=click.Choice(sorted(FORMATS)),
    multiple=True,
    default=("csv",),
    show_default=True,
    help="Output format; repeat the option to write several.",
)
@folder
@as_json
@click.pass_obj
def export_(session: Session, run_name: str, formats: tuple[str, ...], out: Path, as_json: bool) -> None:
    """Export the current results of RUN (default: the newest run), with a summary.

    csv opens in a spreadsheet; parquet has the same columns with types; jsonl has the complete questions and verdicts;
    lm-eval writes the same folder as lm-evaluation-harness with --log_samples, for tools that read that layout.
    """
    export_and_print(session, session.run(run_name), out, tuple(dict.fromkeys(formats)), as_json=as_json)


@main.command()
@as_json
@click.pass_obj
def runs(session: Session, as_json: bool) -> None:
    """List all runs, newest first."""
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
        note("There are no runs yet. Create one with: python -m producer enqueue FILE")
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
    """Show one question of RUN: its choices ranked by score, its verdict, and the prompt the model saw."""
    run = session.run(run_name)
    question, verdict = session.ledger.result(run.run_id, question_id)
    if as_json:
        echo_json(question_json(run, question, verdict))
    else:
        echo_lines(question_lines(run, question, verdict))
