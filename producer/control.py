"""Commands that steer a run under way: pause, resume, cancel, requeue, weight, purge.

Each may be repeated, and all are safe beside running workers.
"""

from __future__ import annotations

import sys

import click

from contract.errors import InputError
from contract.ledger import Run, RunState, halted
from contract.priority import Priority
from contract.verdict import Outcome
from producer.options import note, priority_again_option, run_argument, to_priority, to_weight
from producer.output import number
from producer.session import Session
from producer.watching.status import unwritten

__all__ = ["cancel", "pause", "purge", "requeue", "resume", "weight"]


@click.command()
@run_argument(required=True)
@click.pass_obj
def pause(session: Session, run_name: str) -> None:
    """Begin nothing more of RUN until it is resumed. What is in flight ends; other runs go on."""
    _halt(session, session.run(run_name), RunState.PAUSED)


@click.command()
@run_argument(required=True)
@click.pass_obj
def cancel(session: Session, run_name: str) -> None:
    """Give RUN up: what is in flight ends, the rest is dropped, verdicts stay. Enqueuing it again takes it up again."""
    _halt(session, session.run(run_name), RunState.CANCELLED)


def _halt(session: Session, run: Run, state: RunState) -> None:
    counts = session.ledger.counts(run.run_id)
    if counts.finished:
        click.echo(f"{run.run_id} is settled already")
        return
    was = session.ledger.halt(run.run_id, state)
    if was is RunState.CANCELLED and state is RunState.PAUSED:
        raise InputError(
            f"{run.run_id} is cancelled.", hint=f"Take it up first: python -m producer resume {run.run_id}"
        )
    rest = f"{counts.settled:,} of {counts.total:,} settled"
    click.echo(f"{run.run_id} is {state}{' already' if was is state else ''}: {rest}")


@click.command()
@run_argument(required=True)
@priority_again_option
@click.pass_obj
def resume(session: Session, run_name: str, priority: str | None) -> None:
    """Let RUN go on, paused or cancelled: its unsettled questions are sent again."""
    run = session.run(run_name)
    counts = session.ledger.counts(run.run_id)
    if counts.finished:
        click.echo(f"{run.run_id} is settled already")
        return
    with session.broker.sole_sender(run.run_id):
        questions, messages = session.broker.go_on(run, _priority(run, priority))
    was = f"was {counts.state}, and goes on" if counts.halted else "goes on, as it did"
    click.echo(f"{run.run_id} {was}: {_sent(questions, messages)}")
    _note_unwritten(session, run)


@click.command()
@run_argument(required=True)
@click.option("--failed", is_flag=True, help="Take failed verdicts back, and ask those questions anew.")
@priority_again_option
@click.pass_obj
def requeue(session: Session, run_name: str, failed: bool, priority: str | None) -> None:
    """Send again what is unsettled in RUN and in no message any more."""
    run = session.run(run_name)
    if old := run.spec.rescored_from:
        raise InputError(
            f"{run.run_id} reads the texts of {old} again, and asks no model.",
            hint=f"Finish it with: python -m workers rescore {old}",
        )
    counts = session.ledger.counts(run.run_id)
    if counts.halted:
        raise halted(run.run_id, counts.state)
    with session.broker.sole_sender(run.run_id):
        reopened = session.ledger.reopen_failed(run.run_id) if failed else 0
        questions, messages = session.broker.send_missing(run, _priority(run, priority))
    taken_back = f"{number(reopened, 'failed verdict')} taken back; " if failed else ""
    if counts.finished and not reopened:
        failures = counts.of(Outcome.FAILED)
        remedy = f"; --failed asks {number(failures, 'failed question')} anew" if failures and not failed else ""
        click.echo(f"{run.run_id}: {taken_back}it is settled already, nothing was sent{remedy}")
        return
    click.echo(f"{run.run_id}: {taken_back}{_sent(questions, messages)}")
    _note_unwritten(session, run)


@click.command()
@run_argument(required=True)
@click.argument("turns", type=to_weight)
@click.pass_obj
def weight(session: Session, run_name: str, turns: int) -> None:
    """Give RUN so many TURNS where other runs of its queue and priority get one."""
    run = session.run(run_name)
    session.broker.weigh(run.run_id, turns)
    click.echo(f"{run.run_id}: weight {turns}")


def _priority(run: Run, asked: str | None) -> Priority:
    return to_priority(asked) if asked else run.priority


def _note_unwritten(session: Session, run: Run) -> None:
    counts = session.ledger.counts(run.run_id)
    if counts.unwritten:
        note(f"warning: {unwritten(counts)}")


def _sent(questions: int, messages: int) -> str:
    if not questions:
        return "every unsettled question is in a message already, nothing was sent"
    return f"{number(questions, 'question')} sent in {number(messages, 'message')}"


@click.command()
@run_argument(required=True)
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.pass_obj
def purge(session: Session, run_name: str, yes: bool) -> None:
    """Forget RUN: questions and verdicts leave the ledger. Exported files stay."""
    run = session.run(run_name)
    if not yes:
        if not someone_to_ask():
            raise click.UsageError("Nobody to ask: say --yes.")
        settled = session.ledger.counts(run.run_id).settled
        click.confirm(f"Forget {run.run_id} with {settled:,} of {run.questions:,} verdicts?", abort=True, err=True)
    session.ledger.purge(run.run_id)
    click.echo(f"forgot {run.run_id}")


def someone_to_ask() -> bool:
    """Whether a person sits at the terminal."""
    return sys.stdin.isatty()
