"""Submits a planned run: its questions into the ledger, and their ids as messages into the queue.

Questions are written and sent some thousands at a time, so that workers begin with the first ones while the last are
being written. If the command is killed at any point, repeating it completes the same run: bodies are written once, and
questions that are already queued are not sent again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from typing import Any

from contract.errors import UnknownRun
from contract.ledger import Ledger, Run, RunState
from contract.priority import Priority
from contract.question import Body
from contract.wording import number
from producer.broker import Broker
from producer.runs.planning import Plan
from producer.runs.reuse import Earlier

__all__ = ["State", "Submitted", "explaining_purge", "submit"]


class State(StrEnum):
    """State in which a submission found its run."""

    NEW = "new"
    #: Another command created the run that was to be a new one; nothing was done.
    TAKEN = "taken"
    RESUMED = "resumed"
    #: The run was cancelled, and is now resumed.
    REVIVED = "revived"
    #: Nothing was sent, because the run has been paused.
    PAUSED = "paused"
    SETTLED = "settled"


_AGAIN = {State.RESUMED: "resumed", State.REVIVED: "was cancelled, now resumed"}


@dataclass(frozen=True, slots=True)
class Submitted:
    """Result of a submission."""

    run: Run
    state: State
    unsettled: int
    #: Number of questions sent now, in `messages` messages.
    sent: int
    messages: int
    #: Number of answers taken over from an earlier run; also those of this command before it was interrupted.
    reused: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return the content for `--json`."""
        return {
            "run_id": self.run.run_id,
            "state": self.state.value,
            "unsettled": self.unsettled,
            "sent": self.sent,
            "messages": self.messages,
            "reused": self.reused,
        }

    def describe(self) -> str:
        """Describe the state of the run and what was sent."""
        if self.state is State.SETTLED:
            return "already settled: nothing was sent"
        if self.state is State.PAUSED:
            return f"paused: nothing was sent; resume it with: python -m producer resume {self.run.run_id}"
        reused = f", {number(self.reused, 'answer')} taken over" if self.reused else ""
        messages = number(self.messages, "message")
        if self.state in _AGAIN:
            counted = f"{self.unsettled:,} of {self.run.questions:,} unsettled"
            return f"{_AGAIN[self.state]}: {counted}, {self.sent:,} re-sent in {messages}{reused}"
        return f"new: {number(self.sent, 'question')} sent in {messages}{reused}"


def submit(
    planned: Plan,
    ledger: Ledger,
    broker: Broker,
    priority: Priority | None = None,
    weight: int | None = None,
    earlier: Earlier | None = None,
    *,
    only_new: bool = False,
) -> Submitted:
    """Write what is missing from the ledger, and send what is missing from the queue and not answered by `earlier`.

    `priority` is for what is sent now and, if the run is new, for the run; None: the run's, or normal for a new one.
    `weight` is the number of turns the run gets for each turn of others; None: unchanged, or 1 for a new run. With
    `only_new`, a run that exists already is left as it is. Waits while another producer or a worker is sending the same
    run.
    """
    wanted = planned.run(Priority.NORMAL if priority is None else priority)
    with broker.sole_sender(wanted.run_id), explaining_purge(ledger, [wanted.run_id]):
        is_new = not ledger.runs([wanted.run_id])  # nobody else makes it meanwhile
        run = ledger.open_run(wanted)
        if only_new and not is_new:
            return Submitted(run, State.TAKEN, unsettled=0, sent=0, messages=0)
        priority = run.priority if priority is None else priority
        if weight is not None:
            broker.weigh(run.run_id, weight)
        counts = ledger.counts(run.run_id)
        if counts.finished:
            return Submitted(run, State.SETTLED, unsettled=0, sent=0, messages=0)
        if is_new:
            sent, messages = _write_and_send(planned, run, ledger, broker, priority, earlier)
            return Submitted(run, State.NEW, sent, sent, messages, earlier.reused if earlier else 0)
        _write_rest(planned, run, ledger, earlier, written=counts.written)
        reused = earlier.reused if earlier else 0
        unsettled = ledger.counts(run.run_id).todo
        if counts.state is RunState.PAUSED and unsettled:
            return Submitted(run, State.PAUSED, unsettled, sent=0, messages=0, reused=reused)
        if counts.state is RunState.CANCELLED:
            return Submitted(run, State.REVIVED, unsettled, *broker.go_on(run, priority), reused)
        return Submitted(run, State.RESUMED, unsettled, *broker.send_missing(run, priority), reused)


@contextmanager
def explaining_purge(ledger: Ledger, run_ids: Iterable[str]) -> Iterator[None]:
    """Say which of these runs, submitted by this command, were purged meanwhile, rather than that a name is unknown."""
    try:
        yield
    except UnknownRun as trouble:
        there = set(ledger.run_ids())
        gone = [each for each in run_ids if each not in there]
        what, whose = ("it was", "its") if len(gone) < 2 else ("they were", "their")
        raise UnknownRun(
            f"No longer in the ledger: {', '.join(gone) or 'a run'}. During this command, {what} purged, or Redis lost "
            "its data.",
            hint=f"To ask {whose} questions, run the same command again.",
        ) from trouble


def _write_and_send(
    planned: Plan, run: Run, ledger: Ledger, broker: Broker, priority: Priority, earlier: Earlier | None
) -> tuple[int, int]:
    """Write a new run's questions and send them, window by window; return the numbers sent, and of messages.

    No question is sent before it is in the ledger, and none that `earlier` answers. The run is not finished before all
    are written, whatever was settled.
    """
    order, bodies = planned.prefix_order, iter(planned.survey.bodies)
    written = sent = messages = 0
    while ids := _write(run.run_id, islice(bodies, order.window), ledger):
        settled = earlier.settle(run.run_id, ids) if earlier else set()
        wanted = [each for each in order.grouped(ids, written) if each not in settled]
        messages += broker.publish(run, wanted, priority)
        written += len(ids)
        sent += len(wanted)
    return sent, messages


def _write_rest(planned: Plan, run: Run, ledger: Ledger, earlier: Earlier | None, *, written: bool) -> None:
    """Write the questions that are missing, and take over what `earlier` answers; send nothing.

    The answers are taken over window by window. Once all questions are written, workers send what is unsettled: if this
    command is killed at that moment, only those of the last window are asked although `earlier` answers them.
    """
    if not written:
        bodies = iter(planned.survey.bodies)
        while ids := _write(run.run_id, islice(bodies, planned.prefix_order.window), ledger):
            if earlier:
                earlier.settle(run.run_id, ids)
    elif earlier:
        earlier.settle(run.run_id, ledger.unsettled(run.run_id))


def _write(run_id: str, bodies: Iterable[Body], ledger: Ledger) -> list[str]:
    """Write the bodies, which are not kept in memory, and return their ids."""
    ids: list[str] = []

    def noting_ids() -> Iterator[Body]:
        for body in bodies:
            ids.append(body.question_id)
            yield body

    ledger.add_bodies(run_id, noting_ids())
    return ids
