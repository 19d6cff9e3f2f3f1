"""Commands that control existing runs: pause, resume, cancel, requeue, weight, purge.

Each can be repeated, and all are safe while workers are running.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import click

from contract import keys
from contract.commands import INTERRUPTED, note
from contract.errors import InputError, LedgerError
from contract.ledger import Run, RunState, halted
from contract.names import is_request
from contract.priority import Priority
from contract.verdict import Outcome
from contract.wording import number
from producer.options import KEEPS_PRIORITY, priority_option, run_argument, runs_argument, to_weight
from producer.session import Session
from producer.watching.failures import retry
from producer.watching.status import unwritten

__all__ = ["cancel", "pause", "purge", "requeue", "resume", "weight"]


@click.command()
@runs_argument
@click.pass_obj
def pause(session: Session, run_names: tuple[str, ...]) -> None:
    """Pause each RUN until it is resumed. Questions in flight are finished; other runs continue."""
    runs = session.runs(run_names)
    _refuse_requests(session, runs)
    _refuse_unfinished_rescored(session, runs)
    refused = [run.run_id for run in runs if not _halt(session, run, RunState.PAUSED)]
    if refused:
        are = "is" if len(refused) == 1 else "are"
        resume = f"python -m producer resume {' '.join(refused)}"
        raise InputError(f"{', '.join(refused)} {are} cancelled.", hint=f"Resume it first: {resume}")


@click.command()
@runs_argument
@click.pass_obj
def cancel(session: Session, run_names: tuple[str, ...]) -> None:
    """Cancel each RUN. Questions in flight are finished, the rest is dropped, verdicts are kept.

    Enqueuing it again resumes it.
    """
    for run in session.runs(run_names):
        _halt(session, run, RunState.CANCELLED)


def _refuse_requests(session: Session, runs: Sequence[Run]) -> None:
    """Raise InputError if one of `runs` is an HTTP request: the server waits only for those that are being answered."""
    ids = [run.run_id for run in runs if is_request(run.run_id)]
    requests = [each for each in ids if not session.ledger.counts(each).finished]
    if requests:
        cannot = "is a request" if len(requests) == 1 else "are requests"
        raise InputError(
            f"{', '.join(requests)} {cannot} to the HTTP server, whose client waits for the answer.",
            hint=f"To have it told that there will be none: python -m producer cancel {' '.join(requests)}",
        )


def _refuse_unfinished_rescored(session: Session, runs: Sequence[Run]) -> None:
    """Raise InputError if one of `runs` is being rescored, which no worker does, and which does not pause."""
    for run in runs:
        if not session.ledger.counts(run.run_id).finished:
            _refuse_rescored(session, run)


def _refuse_rescored(session: Session, run: Run) -> None:
    if old := run.spec.rescored_from:
        again, finished = f"To ask failed questions again: {retry(run)}", session.ledger.counts(run.run_id).finished
        finish = f"Finish it with: python -m workers rescore {old} (if that was purged, purge this, too)"
        raise InputError(
            f"{run.run_id} rescores the texts of {old} and asks no model.",
            hint=again if finished else finish,
        )


def _halt(session: Session, run: Run, state: RunState) -> bool:
    """Pause or cancel the run unless it is settled. Returns False for one to be paused that is cancelled."""
    counts = session.ledger.counts(run.run_id)
    if counts.finished:
        click.echo(f"{run.run_id} is already settled")
        return True
    if session.ledger.halt(run.run_id, state) is not state:
        return False
    rest = f"{counts.settled:,} of {counts.total:,} settled"
    more = ", and workers finish what they have begun" if session.broker.in_flight(run) else ""
    click.echo(f"{run.run_id} is {'already ' if counts.state is state else ''}{state}: {rest}{more}")
    return True


@click.command()
@runs_argument
@priority_option
@click.pass_obj
def resume(session: Session, run_names: tuple[str, ...], priority: Priority | None) -> None:
    """Resume each paused or cancelled RUN: its unsettled questions are sent again."""
    runs = session.runs(run_names)
    _refuse_unfinished_rescored(session, runs)
    _as_sole_sender(session, runs, lambda some: _resume(session, some, priority))


def _as_sole_sender(session: Session, runs: Sequence[Run], send: Callable[[Sequence[Run]], None]) -> None:
    """Call `send` with runs that no other process sends meanwhile: first with all of which that is so already.

    So it reads the messages once for all, of which there may be very many. Runs that another process is sending come
    last, each on its own: what of them is in messages is known only when that process is done.
    """
    with session.broker.sole_sender_of_free(run.run_id for run in runs) as free:
        send([run for run in runs if run.run_id in free])
    for run in runs:
        if run.run_id not in free:
            with session.broker.sole_sender(run.run_id):
                send([run])


def _resume(session: Session, runs: Sequence[Run], priority: Priority | None) -> None:
    before = {run.run_id: session.ledger.counts(run.run_id) for run in runs}
    there = session.broker.in_messages([run for run in runs if not before[run.run_id].finished])
    for run in runs:
        counts = before[run.run_id]
        if counts.finished:
            click.echo(f"{run.run_id} is already settled")
            continue
        priority_now = run.priority if priority is None else priority
        questions, messages = session.broker.go_on(run, priority_now, there.get(run.run_id, ()))
        was = f"was {counts.state}, now resumed" if counts.halted else "was not halted"
        click.echo(f"{run.run_id} {was}: {_sent(questions, messages, priority)}")
        _note_unwritten(session, run)


@click.command()
@runs_argument
@click.option("--failed", is_flag=True, help="Discard failed verdicts and ask those questions again.")
@priority_option
@click.pass_obj
def requeue(session: Session, run_names: tuple[str, ...], failed: bool, priority: Priority | None) -> None:
    """Re-send the unsettled questions of each RUN that are no longer in any message."""
    runs = session.runs(run_names)
    for run in runs:
        _refuse_to_requeue(session, run)
    _as_sole_sender(session, runs, lambda some: _requeue(session, some, priority, failed=failed))


def _refuse_to_requeue(session: Session, run: Run) -> None:
    """Raise InputError for a run of which nothing is sent again, before anything is done to the others."""
    _refuse_rescored(session, run)
    counts = session.ledger.counts(run.run_id)
    if counts.halted:
        raise halted(run.run_id, counts.state)


def _requeue(session: Session, runs: Sequence[Run], priority: Priority | None, *, failed: bool) -> None:
    before = {run.run_id: session.ledger.counts(run.run_id) for run in runs}
    reopened: dict[str, list[str]] = {}
    refused: list[LedgerError] = []
    for run in runs:
        with _collecting(refused):
            reopened[run.run_id] = session.ledger.reopen_failed(run.run_id) if failed else []
    runs = [run for run in runs if run.run_id in reopened]
    there = session.broker.in_messages([run for run in runs if reopened[run.run_id] or not before[run.run_id].finished])
    for run in runs:
        discarded = f"{number(len(reopened[run.run_id]), 'failed verdict')} discarded; " if failed else ""
        if not reopened[run.run_id] and before[run.run_id].finished:
            failures = before[run.run_id].of(Outcome.FAILED)
            remedy = f"; --failed asks {number(failures, 'failed question')} again" if failures and not failed else ""
            click.echo(f"{run.run_id}: {discarded}already settled, nothing was sent{remedy}")
            continue
        priority_now = run.priority if priority is None else priority
        # One that failed may be in a message that a worker still holds for the sake of others.
        accounted = {*there.get(run.run_id, ())}.difference(reopened[run.run_id])
        with _collecting(refused):
            questions, messages = session.broker.send_missing(run, priority_now, accounted)
            click.echo(f"{run.run_id}: {discarded}{_sent(questions, messages, priority)}")
            _note_unwritten(session, run)
    for trouble in refused[:-1]:
        note(f"error: {trouble}")
    if refused:
        raise refused[-1]


@contextmanager
def _collecting(refused: list[LedgerError]) -> Iterator[None]:
    """Go on after the refusal of one run, purged, halted or damaged: what is taken back of others must be sent."""
    try:
        yield
    except LedgerError as trouble:
        if trouble.retryable:  # of all runs
            raise
        refused.append(trouble)


@click.command()
@run_argument(required=True)
@click.argument("turns", type=to_weight)
@click.pass_obj
def weight(session: Session, run_name: str, turns: int) -> None:
    """Give RUN this many TURNS for each turn of other runs with the same queue and priority."""
    run = session.run(run_name)
    session.broker.weigh(run.run_id, turns)
    click.echo(f"{run.run_id}: weight {turns}")


def _note_unwritten(session: Session, run: Run) -> None:
    counts = session.ledger.counts(run.run_id)
    if counts.unwritten:
        note(f"warning: {unwritten(run, counts)}")


def _sent(questions: int, messages: int, priority: Priority | None) -> str:
    if not questions:
        kept = "" if priority is None else f"; {KEEPS_PRIORITY}"
        return f"every unsettled question is already in a message, nothing was sent{kept}"
    return f"{number(questions, 'question')} sent in {number(messages, 'message')}"


@click.command()
@runs_argument
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@click.pass_obj
def purge(session: Session, run_names: tuple[str, ...], yes: bool) -> None:
    """Delete each RUN with its questions and verdicts from the ledger. Exported files are kept.

    Messages of the run that still wait in a queue count there until workers take them, and drop them. Where no worker
    serves the queue, and nothing else waits there, they are deleted.
    """
    runs = session.runs(run_names)
    if not yes:
        if not someone_to_ask():
            raise click.UsageError("Cannot ask for confirmation without a terminal: pass --yes.")
        _confirm(f"Delete {', '.join(_with_verdicts(session, run) for run in runs)}?")
    _purge(session, runs)


def _with_verdicts(session: Session, run: Run) -> str:
    settled = session.ledger.counts(run.run_id).settled
    return f"{run.run_id} with {settled:,} of {number(run.questions, 'verdict')}"


def _purge(session: Session, runs: Sequence[Run]) -> None:
    """Delete the runs and say what becomes of their messages, for which each queue is read once for all runs.

    Messages go first: if this breaks off in between, a repeated command still knows the runs, and so their queues.
    """
    ids = [run.run_id for run in runs]
    last_of = {queue: run.run_id for run in runs for queue in keys.route(run.spec)}
    dropped: Counter[str] = Counter()
    for queue, run_id in last_of.items():
        dropped[run_id] += session.broker.drop_leftovers(queue, ids)
    session.ledger.purge(*ids)
    try:
        # Removing messages from the middle of a queue would keep Redis from everything else, for each of them anew.
        left = session.broker.messages_of(runs)
        for run_id in session.ledger.run_ids():  # of one that was made anew meanwhile, workers drop none
            del left[run_id]
    except LedgerError:
        note(f"deleted before that: {' '.join(ids)}")
        raise
    for run in runs:
        click.echo(f"deleted {run.run_id}{_of_messages(dropped[run.run_id], left[run.run_id])}")


def _of_messages(dropped: int, left: int) -> str:
    deleted = f", and {number(dropped, 'queued message')} that no worker would take" if dropped else ""
    waiting = f"; {number(left, 'message')} of it {'is' if left == 1 else 'are'} still queued, to be dropped by workers"
    return f"{deleted}{waiting if left else ''}"


def _confirm(question: str) -> None:
    """Ask on stderr; exit with 1 unless the answer is yes, and with 130 at Ctrl-C."""
    try:
        sure = click.confirm(question, err=True)
    except click.Abort:
        note("")  # behind the question
        raise click.exceptions.Exit(INTERRUPTED) from None
    if not sure:
        note("nothing was deleted")
        raise click.exceptions.Exit(1)


def someone_to_ask() -> bool:
    """Whether standard input is a terminal, so that a person can confirm."""
    return sys.stdin.isatty()
