"""Commands that follow one run: `status`, `watch` and `export`."""

from __future__ import annotations

from pathlib import Path

import click

from contract.names import LAST
from producer.export.files import refuse_unwritable
from producer.export.formats import formats_option, refuse_unused
from producer.options import as_json, folder, run_argument
from producer.output import echo_json, echo_lines
from producer.session import Session
from producer.watching.finish import export_and_print, finish, print_results, wait_for
from producer.watching.status import status_json, status_lines

__all__ = ["export", "status", "watch"]


@click.command()
@run_argument(required=False)
@as_json
@click.pass_obj
def status(session: Session, run_name: str, as_json: bool) -> None:
    """Show the progress of RUN (default: the newest run)."""
    run = session.run(run_name)
    counts = session.ledger.counts(run.run_id)
    used = session.ledger.engines(run.run_id)
    if as_json:
        echo_json(status_json(run, counts, session.broker, used))
    else:
        echo_lines(status_lines(run, counts, session.broker, used))


@click.command()
@run_argument(required=False)
@click.option("--export", "then_export", is_flag=True, help="Export the results once the run is settled.")
@formats_option("Format in which --export writes them")
@folder
@as_json
@click.pass_obj
def watch(
    session: Session, run_name: str, then_export: bool, formats: tuple[str, ...], out: Path, as_json: bool
) -> None:
    """Watch RUN (default: the newest run) until it is settled; lost questions are sent again."""
    refuse_unused(formats, then_export, "--export")
    run = session.run(run_name)
    if then_export:
        refuse_unwritable(out / run.run_id)
        finish(session, run, out, formats, as_json=as_json)
    else:
        counts = wait_for(session, run)
        print_results(session, run, out, counts, as_json=as_json)


@click.command()
@click.argument("run_names", metavar="[RUN…]", nargs=-1)
@formats_option("Output format")
@folder
@as_json
@click.pass_obj
def export(session: Session, run_names: tuple[str, ...], formats: tuple[str, ...], out: Path, as_json: bool) -> None:
    """Export the current results of each RUN (default: the newest run), with a summary.

    csv opens in a spreadsheet; parquet has the same columns with types; jsonl has the complete questions and verdicts;
    lm-eval writes the same folder as lm-evaluation-harness with --log_samples, for tools that read that layout.
    """
    export_and_print(session, session.runs(run_names or (LAST,)), out, formats, as_json=as_json)
