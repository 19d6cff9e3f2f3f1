"""Which questions are in no message and settled by nobody, and what sends them again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
import redis
from celery import Celery

from contract import RedisLedger, RunState, Settings, keys
from contract.audit import go_on, heal, looks_stalled, missing, send_missing
from contract.errors import LedgerError, RunHalted
from contract.fleet import Fleet
from contract.priority import Priority
from contract.queue import held_batches, publish, queue_length, queued_batches, restore_held
from contract.spec import IndexKind, Retrieval
from tests.integration.holding import die_holding, queued
from tests.integration.runs import QUEUE, messages_in, sent
from tests.support import make_question, make_questions, open_run, settle


def test_nothing_is_missing_while_every_question_is_queued_held_or_settled(
    redis_ledger: RedisLedger, app: Celery, client: redis.Redis
) -> None:
    run = sent(app, redis_ledger, 6, batch_size=2)
    fleet = Fleet(client)
    die_holding(fleet, "gpu0", messages=1)
    assert missing(redis_ledger, run) == []
    for live in fleet.alive():
        fleet.leave(live)
    assert missing(redis_ledger, run) == [], "held by a dead worker, and about to be put back"
    client.lpop(keys.broker_lists(QUEUE)[2])
    settle(redis_ledger, run.run_id, "q4", "q5")
    assert missing(redis_ledger, run) == []
    assert send_missing(redis_ledger, app, run, batch_size=2) == (0, 0)
    assert queue_length(client, QUEUE) == 1


def test_what_a_lost_message_carried_is_found_in_input_order_and_sent_again_once(
    redis_ledger: RedisLedger, app: Celery, client: redis.Redis
) -> None:
    run = sent(app, redis_ledger, 12, batch_size=4)
    client.lpop(keys.broker_lists(QUEUE)[2])
    settle(redis_ledger, run.run_id, "q9")
    assert missing(redis_ledger, run) == ["q8", "q10", "q11"]
    assert send_missing(redis_ledger, app, run, batch_size=2, priority=Priority.HIGH) == (3, 2)
    assert [message.ids for message in messages_in(client, keys.broker_lists(QUEUE)[0])] == [["q8", "q10"], ["q11"]]
    assert send_missing(redis_ledger, app, run, batch_size=2) == (0, 0)
    assert max(queued(client).values()) == 1


def and_then(happening: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> None:
    """Have `happening` happen once, after the first of what an audit reads."""
    once = iter([happening])

    def followed(read: Callable[..., Iterator[Any]]) -> Callable[..., list[Any]]:
        def reading(*arguments: Any) -> list[Any]:
            found = list(read(*arguments))
            for each in once:
                each()
            return found

        return reading

    for read in (queued_batches, held_batches):
        monkeypatch.setattr(f"contract.audit.{read.__name__}", followed(read))


def test_no_question_is_missing_whose_message_a_worker_takes_while_the_audit_reads(
    redis_ledger: RedisLedger, app: Celery, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = sent(app, redis_ledger, 2, batch_size=2)
    and_then(partial(die_holding, Fleet(client), "gpu0", messages=1), monkeypatch)
    assert missing(redis_ledger, run) == []
    assert (queue_length(client, QUEUE), client.hlen(keys.unacked("gpu0"))) == (0, 1)


def test_no_question_is_missing_that_goes_on_to_be_scored_while_the_audit_reads(
    redis_ledger: RedisLedger, app: Celery, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    rag = Retrieval(index="facts", index_digest="0" * 64, kind=IndexKind.BM25)
    run = open_run(redis_ledger, make_questions(2), rag=rag)
    first, second = keys.route(run.spec)
    publish(app, first, run.run_id, ["q0", "q1"], batch_size=2)

    def go_on_to_be_scored() -> None:
        client.delete(*keys.broker_lists(first))
        publish(app, second, run.run_id, ["q0", "q1"], batch_size=2)

    and_then(go_on_to_be_scored, monkeypatch)
    assert missing(redis_ledger, run) == []
    assert not looks_stalled(redis_ledger, run)


def test_no_queue_is_reordered_while_the_audit_reads_it(
    redis_ledger: RedisLedger, app: Celery, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = sent(app, redis_ledger, 2, batch_size=2)
    moving: list[bool] = []
    monkeypatch.setattr(
        "contract.audit.queued_batches",
        lambda *_: moving.append(bool(client.exists(keys.moving(QUEUE)))) or [],  # type: ignore[func-returns-value]
    )
    assert missing(redis_ledger, run) == ["q0", "q1"]
    assert moving == [True]


def test_another_runs_messages_do_not_stand_in_for_lost_ones(redis_ledger: RedisLedger, app: Celery) -> None:
    run = open_run(redis_ledger, make_questions(2), name="lost")
    publish(app, QUEUE, "another", ["q0", "q1"], batch_size=16)
    assert missing(redis_ledger, run) == ["q0", "q1"]


def test_a_run_is_stalled_only_when_no_message_can_be_carrying_what_is_unsettled(
    redis_ledger: RedisLedger, app: Celery, client: redis.Redis, settings: Settings
) -> None:
    fleet = Fleet(client)
    run = sent(app, redis_ledger, 2, batch_size=2)
    assert not looks_stalled(redis_ledger, run), "queued"
    die_holding(fleet, "gpu0", messages=1)
    assert fleet.alive(), "this process stands in for the worker's"
    assert not looks_stalled(redis_ledger, run), "held by a live worker"
    (live,) = fleet.alive()
    fleet.leave(live)
    assert not looks_stalled(redis_ledger, run), "held by a dead worker, and about to be put back"
    restore_held(settings, "gpu0")
    assert not looks_stalled(redis_ledger, run), "back on the queue"
    assert client.lpop(keys.broker_lists(QUEUE)[2])
    assert looks_stalled(redis_ledger, run), "lost"
    assert send_missing(redis_ledger, app, run, batch_size=2) == (2, 1)
    assert not looks_stalled(redis_ledger, run), "sent again"
    client.delete(*keys.broker_lists(QUEUE))
    settle(redis_ledger, run.run_id, "q0", "q1")
    assert not looks_stalled(redis_ledger, run), "settled"


def test_a_run_that_is_still_being_written_is_neither_stalled_nor_healed(
    redis_ledger: RedisLedger, app: Celery, client: redis.Redis
) -> None:
    run = open_run(redis_ledger, make_questions(2))
    half = run.model_copy(update={"run_id": "half", "questions": 4})
    redis_ledger.open_run(half)
    redis_ledger.add_questions("half", make_questions(2))
    assert not looks_stalled(redis_ledger, half)
    assert heal(redis_ledger, app, half, batch_size=2) == (0, 0)
    redis_ledger.add_questions("half", make_questions(4))
    assert looks_stalled(redis_ledger, half)
    assert heal(redis_ledger, app, half, batch_size=2) == (4, 2)
    client.delete(*keys.broker_lists(QUEUE))
    assert heal(redis_ledger, app, half, batch_size=2) == (0, 0), "somebody healed it just now"


def test_a_halted_run_is_neither_stalled_nor_healed_and_goes_on_with_what_is_in_no_message_once(
    redis_ledger: RedisLedger, app: Celery, client: redis.Redis
) -> None:
    run = open_run(redis_ledger, make_questions(4))
    settle(redis_ledger, run.run_id, "q0")
    redis_ledger.halt(run.run_id, RunState.PAUSED)
    with pytest.raises(RunHalted):
        redis_ledger.begin(run.run_id, ["q2"])  # its message is dropped; that of q3 was lost
    assert not looks_stalled(redis_ledger, run)
    publish(app, QUEUE, run.run_id, ["q1"], batch_size=2)
    assert heal(redis_ledger, app, run, batch_size=2) == (0, 0)
    assert go_on(redis_ledger, app, run, batch_size=2) == (2, 1)
    assert queued(client) == {"q1": 1, "q2": 1, "q3": 1}
    assert not redis_ledger.counts(run.run_id).halted
    assert go_on(redis_ledger, app, run, batch_size=2) == (0, 0)


def test_what_a_worker_puts_aside_just_before_its_run_goes_on_is_sent_although_it_still_holds_the_message(
    redis_ledger: RedisLedger, app: Celery, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = sent(app, redis_ledger, 2, batch_size=2)
    die_holding(Fleet(client), "gpu0", messages=1)
    redis_ledger.halt(run.run_id, RunState.PAUSED)
    resume = redis_ledger.resume

    def resume_after_all(run_id: str) -> None:
        with pytest.raises(RunHalted):
            redis_ledger.begin(run_id, ["q0", "q1"])
        resume(run_id)

    monkeypatch.setattr(redis_ledger, "resume", resume_after_all)
    assert go_on(redis_ledger, app, run, batch_size=2) == (2, 1)


def test_questions_that_are_sent_again_are_sent_as_at_first_those_of_one_text_together(
    redis_ledger: RedisLedger, app: Celery
) -> None:
    """Each pause of a shuffled file's run cost it what its workers had cached of each text."""
    of_two_texts = [make_question(n, context="xy"[n % 2]) for n in range(6)]
    run = open_run(redis_ledger, of_two_texts, use_context_field=True)
    redis_ledger.client.hset(keys.RunKeys(run.run_id).questions, "q2", '{"id": 2}')  # no version's
    together = [["q0", "q4"], ["q1", "q3"], ["q5", "q2"]]

    assert heal(redis_ledger, app, run, batch_size=2) == (6, 3)
    assert [each.ids for each in messages_in(redis_ledger.client, keys.broker_lists(QUEUE)[2])] == together

    redis_ledger.client.delete(keys.broker_lists(QUEUE)[2])
    redis_ledger.halt(run.run_id, RunState.PAUSED)
    with pytest.raises(RunHalted):
        redis_ledger.begin(run.run_id, [f"q{n}" for n in range(5)])
    assert go_on(redis_ledger, app, run, batch_size=2) == (6, 3)
    assert [each.ids for each in messages_in(redis_ledger.client, keys.broker_lists(QUEUE)[2])] == together


def test_what_is_healed_keeps_the_priority_of_its_run(
    redis_ledger: RedisLedger, app: Celery, client: redis.Redis
) -> None:
    run = open_run(redis_ledger, make_questions(2)).model_copy(update={"run_id": "low", "priority": Priority.LOW})
    redis_ledger.open_run(run)
    redis_ledger.add_questions("low", make_questions(2))
    assert redis_ledger.run("low").priority is Priority.LOW
    assert heal(redis_ledger, app, redis_ledger.run("low"), batch_size=2) == (2, 1)
    assert [message.ids for message in messages_in(client, keys.broker_lists(QUEUE)[3])] == [["q0", "q1"]]


def test_a_rescoring_that_was_killed_is_left_to_who_rescores_and_sent_to_no_worker(
    redis_ledger: RedisLedger, app: Celery, client: redis.Redis
) -> None:
    run = open_run(redis_ledger, make_questions(2), rescored_from="another")
    assert redis_ledger.open_runs() == [run.run_id]
    assert not looks_stalled(redis_ledger, run)
    assert heal(redis_ledger, app, run, batch_size=2) == (0, 0)
    assert go_on(redis_ledger, app, run, batch_size=2) == (0, 0)
    assert queue_length(client, QUEUE) == 0


@pytest.mark.parametrize("look", [missing, looks_stalled])
def test_the_audit_tells_of_a_redis_it_cannot_read(redis_ledger: RedisLedger, client: redis.Redis, look: Any) -> None:
    run = open_run(redis_ledger, make_questions(1))
    client.set(QUEUE, "no list at all")
    with pytest.raises(LedgerError, match="WRONGTYPE"):
        look(redis_ledger, run)
