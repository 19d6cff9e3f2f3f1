"""The audit: questions that are unsettled but neither queued nor held were lost by the broker, and are sent again.

kombu takes a message with one command and records it as unacknowledged with a second; a process killed between the two
loses the message. No setting closes that window, so the ledger does.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence

from celery import Celery

from contract import keys
from contract.connection import translating
from contract.fair_share import at_rest
from contract.fleet import Fleet
from contract.ledger import RedisLedger, Run
from contract.locks import claim
from contract.prefix_order import grouped_again
from contract.priority import Priority
from contract.queue import held_batches, held_question_ids, publish, queue_length, queued_batches
from contract.sender_lock import sole_sender_if_free

__all__ = ["go_on", "heal", "in_messages", "lacks_any", "looks_stalled", "missing", "send_missing"]


def missing(ledger: RedisLedger, run: Run, accounted: Collection[str] | None = None) -> list[str]:
    """Return ids of `run` that are unsettled, neither in a waiting message nor held by a worker, in input order.

    Questions of a message that is taken or sent on meanwhile may be among them: to send these twice only costs a lookup
    in the ledger. `accounted` are those `in_messages` if these were read a moment ago, while nobody else sends the run.
    A rescored run misses nothing: its questions never go to workers, and repeating the command scores the rest.
    """
    if run.spec.rescored_from:
        return []
    if accounted is None:
        accounted = in_messages(ledger, [run]).get(run.run_id, ())
    return [each for each in ledger.unsettled(run.run_id) if each not in accounted]


def in_messages(ledger: RedisLedger, runs: Sequence[Run]) -> Mapping[str, Collection[str]]:
    """Return run id → the questions of that run, if any, in messages that wait on its queues or are held by a worker.

    All messages there are read for it, whether for one of `runs` or for many; none without any.
    """
    if not runs:
        return {}
    of = {run.run_id for run in runs}
    queues = {queue for run in runs for queue in keys.route(run.spec)}
    found: defaultdict[str, set[str]] = defaultdict(set)
    with translating(ledger.client):
        for queue in sorted(queues):  # `retrieve.…` first, from which messages are sent on to `score.…`
            with at_rest(ledger, queue):
                for run_id, ids in queued_batches(ledger.client, queue, of):
                    found[run_id].update(ids)
        for run_id, ids in held_batches(ledger.client, Fleet(ledger.client).names(), of):
            found[run_id].update(ids)
    return found


def lacks_any(ledger: RedisLedger, run: Run, accounted: Collection[str]) -> bool:
    """Whether `run` has unsettled questions that are not among those `accounted` for.

    One that was lost before `in_messages` read these is found. One that is found may only be on its way: `heal` looks
    again, while nobody else sends.
    """
    return any(each not in accounted for each in ledger.unsettled(run.run_id))


def send_missing(
    ledger: RedisLedger,
    app: Celery,
    run: Run,
    batch_size: int,
    priority: Priority = Priority.NORMAL,
    accounted: Collection[str] | None = None,
) -> tuple[int, int]:
    """Publish the `missing` questions to the first queue of their route; return (questions, messages) sent."""
    return _send(ledger, app, run, missing(ledger, run, accounted), batch_size, priority)


def heal(ledger: RedisLedger, app: Celery, run: Run, batch_size: int) -> tuple[int, int]:
    """`send_missing` at the run's own priority.

    Sends nothing while another process is sending the run or has just audited it, or while the run is halted or still
    being written.
    """
    with translating(ledger.client):
        counts = ledger.counts(run.run_id)
        if counts.halted or not counts.written or not claim(ledger.client, keys.audit_lock(run.run_id)):
            return 0, 0
    with sole_sender_if_free(ledger, run.run_id) as free:
        return send_missing(ledger, app, run, batch_size, run.priority) if free else (0, 0)


def go_on(
    ledger: RedisLedger,
    app: Celery,
    run: Run,
    batch_size: int,
    priority: Priority = Priority.NORMAL,
    accounted: Collection[str] | None = None,
) -> tuple[int, int]:
    """Resume a paused or cancelled run: publish the questions that are in no message; return (questions, messages).

    These are the questions that workers put aside while the run was halted, and any that were lost (`missing`). The
    former are known exactly, even while a worker is just dropping their message. If this is killed midway, repeating it
    sends the rest.
    """
    ledger.resume(run.run_id)
    aside = list(ledger.take_aside(run.run_id))
    known = set(aside)
    ids = aside + [each for each in missing(ledger, run, accounted) if each not in known]
    return _send(ledger, app, run, ids, batch_size, priority)


def _send(
    ledger: RedisLedger, app: Celery, run: Run, ids: Sequence[str], batch_size: int, priority: Priority
) -> tuple[int, int]:
    """Publish these questions as at first, those with a common prompt prefix together; return (questions, messages)."""
    together = grouped_again(ledger, run, ids)
    return len(ids), publish(app, keys.route(run.spec)[0], run.run_id, together, batch_size, priority) if ids else 0


def looks_stalled(ledger: RedisLedger, run: Run) -> bool:
    """Whether `run` has unsettled questions that no message can contain any more.

    Cheap enough to call every second: while messages wait it costs a few counts, and only held ones are ever read.
    A run that is halted, still being written, or rescored (never in any message) is not stalled.
    """
    if run.spec.rescored_from:
        return False
    with translating(ledger.client):
        if any(queue_length(ledger.client, queue) for queue in keys.route(run.spec)):
            return False
        names = Fleet(ledger.client).names()
        held = (held_question_ids(ledger.client, [name], run.run_id) for name in names)
        counts = ledger.counts(run.run_id)
        return counts.todo > 0 and counts.written and not counts.halted and not any(held)
