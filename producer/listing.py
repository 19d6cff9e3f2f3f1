"""Commands that list what is in the ledger: `runs`, and `show` for one question."""

from __future__ import annotations

from typing import Any

import click

from contract.commands import note
from contract.errors import LedgerError
from contract.ledger import Counts, Ledger, Run
from contract.verdict import Outcome
from contract.wording import number
from producer.engine_differences import any_simulated, sampling_lines
from producer.export.cells import iso
from producer.options import as_json, run_argument
from producer.output import echo_json, echo_lines, echo_table
from producer.question_view import question_json, question_lines
from producer.result_lines import chance
from producer.session import Session
from producer.stats import Tally

__all__ = ["runs", "show"]

#: Columns of `runs`.
COLUMNS = ("run", "created (UTC)", "state", "settled", "accuracy", "chance", "model", "mode", "source")


@click.command()
@as_json
@click.pass_obj
def runs(session: Session, as_json: bool) -> None:
    """List all runs, newest first."""
    found = [
        (run, counts, _made_up(session.ledger, run.run_id))
        for run, counts in session.ledger.standings(session.ledger.lean_runs())
    ]
    if as_json:
        echo_json([_run_json(*each) for each in found])
    elif found:
        echo_table(COLUMNS, (_run_row(*each) for each in found))
    else:
        note("There are no runs yet. Create one with: python -m producer enqueue FILE")


def _made_up(ledger: Ledger, run_id: str) -> bool:
    """Whether the simulated engine answered the run, whose accuracy is then worth nothing."""
    try:
        return any_simulated(ledger.engines(run_id))
    except LedgerError as trouble:
        if trouble.retryable:
            raise
        return False  # purged meanwhile, or not readable by this version: the others are listed nevertheless


def _run_json(run: Run, counts: Counts, made_up: bool) -> dict[str, Any]:
    return {
        "run_id": run.run_id,
        "created_at": iso(run.created_at),
        "source": run.source,
        "model": run.spec.model,
        "mode": run.spec.mode,
        "index": run.spec.rag.index if run.spec.rag else None,
        "state": counts.standing,
        **Tally.of_counts(counts, run.without_key).to_json(),
        "chance": run.chance,
        "simulated": made_up,
    }


def _run_row(run: Run, counts: Counts, made_up: bool) -> tuple[str, ...]:
    share = Tally.of_counts(counts, run.without_key).over_all()
    failed = f", {counts.of(Outcome.FAILED):,} failed" if counts.of(Outcome.FAILED) else ""
    settled = f"{counts.settled:,}/{counts.total:,}{failed}"
    accuracy = "simulated" if made_up else f"{share.value:.3f}" if share else "-"
    how = (run.spec.model, _mode(run), run.source)
    return run.run_id, iso(run.created_at)[:19], counts.standing, settled, accuracy, chance(run.chance), *how


def _mode(run: Run) -> str:
    """Return the mode, and what most often tells runs of one file apart that are named and asked alike."""
    shots, rag = run.spec.few_shot, run.spec.rag
    beside = (number(shots.k, "example") if shots else "", f"passages from {rag.index}" if rag else "")
    return " · ".join([run.spec.mode, *filter(None, beside)])


@click.command()
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
        beside = sampling_lines(run, session.ledger.engines(run.run_id))
        echo_lines(question_lines(run, question, verdict, beside), verbatim=True)
