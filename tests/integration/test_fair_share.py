"""The order in which a queue is brought: by turns, in questions, by weight, behind what must wait."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import redis
from celery import Celery

from contract import RedisLedger, Settings, fair_share, keys
from contract.errors import RedisUnreachable
from contract.fleet import Fleet, WorkerRecord, WorkerState
from contract.ledger import RunState
from contract.priority import Priority
from tests.integration.runs import QUEUE, messages_in, sent
from tests.integration.turns import LIST, levelled, take, turns
from tests.support import SIMULATED_MODEL
from workers.janitor import Janitor


def test_runs_take_turns_and_the_one_that_came_first_begins(app: Celery, redis_ledger: RedisLedger) -> None:
    for name, questions in (("a", 24), ("b", 8), ("c", 16)):
        sent(app, redis_ledger, questions, name)
    assert turns(redis_ledger) == "aaaaaabbcccc"
    assert levelled(redis_ledger) == "abcabcacacaa"


def test_turns_are_counted_in_questions_not_in_messages(app: Celery, redis_ledger: RedisLedger) -> None:
    sent(app, redis_ledger, 64, "large", batch_size=16)
    sent(app, redis_ledger, 32, "small", batch_size=4)
    assert levelled(redis_ledger) == "lsssslssssll"


def test_messages_of_a_single_question_take_turns_as_well(app: Celery, redis_ledger: RedisLedger) -> None:
    sent(app, redis_ledger, 12, "large", batch_size=4)
    sent(app, redis_ledger, 3, "single", batch_size=1)
    assert levelled(redis_ledger) == "lsssll"


def test_a_run_of_weight_three_gets_three_turns_where_another_gets_one(app: Celery, redis_ledger: RedisLedger) -> None:
    sent(app, redis_ledger, 80, "light")
    sent(app, redis_ledger, 240, "heavy", weight=3)
    assert Counter(levelled(redis_ledger, 40)) == {"h": 30, "l": 10}


def test_a_weight_that_is_no_number_is_none(app: Celery, redis_ledger: RedisLedger) -> None:
    """Somebody wrote it with `redis-cli`."""
    strange, *_ = [sent(app, redis_ledger, 4, name, batch_size=1) for name in "ab"]
    redis_ledger.client.hset(keys.weights(), strange.run_id, "heavy")
    assert fair_share.weight_of(redis_ledger, strange.run_id) == 1
    assert levelled(redis_ledger) == "abababab"


def test_runs_of_equal_weight_take_turns_however_large_that_is_and_however_small_their_messages(
    app: Celery, redis_ledger: RedisLedger
) -> None:
    for name in "ab":
        sent(app, redis_ledger, 4, name, batch_size=1, weight=8)
    assert levelled(redis_ledger) == "abababab"


@pytest.mark.parametrize("weights", [(1, 1), (1, 3), (5, 2)])
def test_however_often_a_list_is_levelled_while_it_is_taken_from_the_shares_are_kept(
    app: Celery, redis_ledger: RedisLedger, weights: tuple[int, int]
) -> None:
    draw = random.Random(1)
    for name, weight in zip("ab", weights, strict=True):
        sent(app, redis_ledger, 4 * 200, name, weight=weight)
    taken = ""
    while len(taken) < 210:
        fair_share.level(redis_ledger, QUEUE)
        count = draw.randint(1, 3)
        taken += turns(redis_ledger, count)
        take(redis_ledger, count)
    share = Counter(taken[:210])["a"] / 210
    assert share == pytest.approx(weights[0] / sum(weights), abs=0.02)


def test_a_list_that_is_in_order_is_left_alone(app: Celery, redis_ledger: RedisLedger) -> None:
    sent(app, redis_ledger, 40, "a")
    sent(app, redis_ledger, 400, "b", weight=3)
    fair_share.level(redis_ledger, QUEUE)
    take(redis_ledger, 7)
    before = redis_ledger.client.lrange(LIST, 0, -1)
    fair_share.level(redis_ledger, QUEUE)
    assert redis_ledger.client.lrange(LIST, 0, -1) == before


def test_a_message_that_is_no_more_than_its_own_turn_late_stays_where_it_is(
    app: Celery, redis_ledger: RedisLedger
) -> None:
    sent(app, redis_ledger, 8, "a")
    sent(app, redis_ledger, 4, "b")
    assert levelled(redis_ledger) == "aab", "as after `b` was taken off `baab`"


def test_runs_that_are_put_off_wait_behind_the_others_but_for_one_message_which_tries_again(
    app: Celery, redis_ledger: RedisLedger
) -> None:
    judged, *_ = [sent(app, redis_ledger, n, name) for name, n in (("a", 24), ("b", 8), ("c", 16))]
    assert levelled(redis_ledger, put_off={judged.run_id}) == "abcbcccaaaaa"
    take(redis_ledger, 1)
    assert levelled(redis_ledger, put_off={judged.run_id}) == "bcabcccaaaa"
    assert levelled(redis_ledger) == "bcabcacacaa"


def test_of_a_run_that_is_put_off_one_message_tries_again_also_if_messages_are_small(
    app: Celery, redis_ledger: RedisLedger
) -> None:
    judged = sent(app, redis_ledger, 3, "a", batch_size=1)
    sent(app, redis_ledger, 8, "b")
    assert levelled(redis_ledger, put_off={judged.run_id}) == "abbaa"


def test_a_run_that_one_worker_puts_off_keeps_its_turns_while_another_serves_it(
    app: Celery, redis_ledger: RedisLedger, settings: Settings
) -> None:
    run, _ = [sent(app, redis_ledger, 16, name) for name in "ab"]
    fleet = Fleet(redis_ledger.client)
    for name, puts_off in (("gpu0", {run.run_id: "update the worker"}), ("gpu1", {})):
        fleet.join(
            WorkerRecord(
                name=name, model=SIMULATED_MODEL, queue=QUEUE, state=WorkerState.READY, puts_off=dict(puts_off)
            )
        )
    Janitor(settings, app, "gpu0", QUEUE).round()
    assert turns(redis_ledger) == "abababab"


def test_a_changed_weight_changes_the_order(app: Celery, redis_ledger: RedisLedger) -> None:
    run = sent(app, redis_ledger, 80, "a")
    sent(app, redis_ledger, 80, "b")
    assert levelled(redis_ledger, 8) == "abababab"
    fair_share.weigh(redis_ledger, run.run_id, 3)
    assert Counter(levelled(redis_ledger, 8)) == {"a": 6, "b": 2}


def test_a_weight_can_be_taken_back(app: Celery, redis_ledger: RedisLedger) -> None:
    run = sent(app, redis_ledger, 16, "a", weight=3)
    assert fair_share.weight_of(redis_ledger, run.run_id) == 3
    fair_share.weigh(redis_ledger, run.run_id, 1)
    assert fair_share.weight_of(redis_ledger, run.run_id) == 1
    sent(app, redis_ledger, 16, "b")
    assert levelled(redis_ledger) == "abababab"


@pytest.mark.parametrize("state", [RunState.PAUSED, RunState.CANCELLED])
def test_a_halted_run_takes_no_turn_that_another_wants(app: Celery, redis_ledger: RedisLedger, state: RunState) -> None:
    halted = sent(app, redis_ledger, 16, "halted")
    for name in ("a", "b"):
        sent(app, redis_ledger, 8, name)
    redis_ledger.halt(halted.run_id, state)
    assert levelled(redis_ledger) == "ababhhhh"


def test_a_purged_runs_messages_wait_behind_the_others_and_its_weight_is_forgotten(
    app: Celery, redis_ledger: RedisLedger
) -> None:
    gone = sent(app, redis_ledger, 8, "gone", weight=7)
    sent(app, redis_ledger, 8, "a")
    redis_ledger.purge(gone.run_id)
    assert levelled(redis_ledger) == "aagg"
    assert fair_share.weight_of(redis_ledger, gone.run_id) == 1


def test_rubbish_in_the_list_stays_in_it_and_is_taken_first(app: Celery, redis_ledger: RedisLedger) -> None:
    sent(app, redis_ledger, 40, "a")
    sent(app, redis_ledger, 8, "b")
    rubbish = ["", "no message", '"argsrepr": "', '"argsrepr": "x: 1 questions']
    redis_ledger.client.lpush(LIST, *rubbish)
    fair_share.level(redis_ledger, QUEUE)
    assert redis_ledger.client.lrange(LIST, -4, -1) == rubbish[::-1]
    assert redis_ledger.client.llen(LIST) == 16


def test_each_priority_is_ordered_by_itself(app: Celery, redis_ledger: RedisLedger) -> None:
    for name, priority in (("a", Priority.LOW), ("b", Priority.LOW), ("c", Priority.HIGH)):
        sent(app, redis_ledger, 12, name, priority=priority)
    fair_share.level(redis_ledger, QUEUE)
    lists = keys.broker_lists(QUEUE)
    orders = ["".join(each.run_id[0] for each in messages_in(redis_ledger.client, name)) for name in lists]
    assert orders == ["ccc", "", "", "ababab"]


@pytest.mark.parametrize(
    ("command", "call"),
    [
        ("EVALSHA", lambda ledger: fair_share.weigh(ledger, "run", 2)),
        ("HGET", lambda ledger: fair_share.weight_of(ledger, "run")),
        ("SET", lambda ledger: fair_share.level_if_due(ledger, QUEUE)),
        ("PEXPIRE", lambda ledger: fair_share.level_if_due(ledger, QUEUE)),
        ("SET", lambda ledger: fair_share.level(ledger, QUEUE)),
        ("LLEN", lambda ledger: fair_share.level(ledger, QUEUE)),
        ("SET", lambda ledger: fair_share.at_rest(ledger, QUEUE).__enter__()),
    ],
)
def test_a_redis_that_is_away_is_told_as_any_other_outage_whatever_is_asked_of_it(
    redis_ledger: RedisLedger, monkeypatch: pytest.MonkeyPatch, command: str, call: Callable[[RedisLedger], object]
) -> None:
    execute: Any = redis.Redis.execute_command

    def away(client: redis.Redis, *arguments: Any, **options: Any) -> object:
        if arguments[0] == command:
            raise redis.ConnectionError("away")
        found: object = execute(client, *arguments, **options)
        return found

    monkeypatch.setattr(redis.Redis, "execute_command", away)
    with pytest.raises(RedisUnreachable):
        call(redis_ledger)
