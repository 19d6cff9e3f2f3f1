"""Long queues are reordered in steps, at their head, and not too often; who reads them meanwhile is not deceived."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
import time
from collections import Counter
from types import SimpleNamespace
from typing import cast

import pytest
import redis
from celery import Celery

from contract import RedisLedger, fair_share, keys
from contract.ledger import RunState
from contract.locks import LOCK_S, Lock
from tests.integration.runs import QUEUE, sent
from tests.integration.turns import LIST, levelled, take, turns
from tests.support import ROOT

#: Levels a queue without an end, in small steps, and is killed.
LEVELS = """
import sys
from contract import RedisLedger, fair_share, load_settings
fair_share.AT_ONCE = 40
ledger = RedisLedger.connect(load_settings(None, []))
print("begins", flush=True)
while True:
    fair_share._Leveller(ledger.client, sys.argv[1]).level()
    ledger.client.lmove(sys.argv[1], sys.argv[1], "RIGHT", "LEFT")
"""


@pytest.mark.usefixtures("short_steps")
def test_a_run_that_is_put_off_does_not_keep_others_from_the_head_of_a_long_list(
    app: Celery, redis_ledger: RedisLedger
) -> None:
    judged = sent(app, redis_ledger, 4 * 80, "a")
    sent(app, redis_ledger, 4 * 5, "b")
    assert Counter(levelled(redis_ledger, 6, put_off={judged.run_id})) == {"b": 5, "a": 1}
    assert Counter(turns(redis_ledger)) == {"a": 80, "b": 5}
    take(redis_ledger, 6)
    before = redis_ledger.client.lrange(LIST, 0, -1)
    fair_share.level(redis_ledger, QUEUE, put_off={judged.run_id})
    assert redis_ledger.client.lrange(LIST, 0, -1) == before, "there is nobody else"


@pytest.fixture
def short_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is long for these tests is quickly made."""
    monkeypatch.setattr(fair_share, "AT_ONCE", 40)


@pytest.mark.usefixtures("short_steps")
def test_in_a_long_list_the_head_is_shared_by_all_runs_wherever_they_lie(
    app: Celery, redis_ledger: RedisLedger
) -> None:
    for name, questions in (("a", 800), ("b", 400), ("c", 8), ("d", 400)):
        sent(app, redis_ledger, questions, name)
    before = Counter(cast("list[str]", redis_ledger.client.lrange(LIST, 0, -1)))
    assert levelled(redis_ledger, 20) == "abcdabcdabdabdabdabd"
    assert Counter(cast("list[str]", redis_ledger.client.lrange(LIST, 0, -1))) == before


@pytest.mark.parametrize("at_once", [20, 3000], ids=["in a long list", "in a short list"])
def test_a_run_gets_its_turn_wherever_its_only_message_lies(
    app: Celery, redis_ledger: RedisLedger, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr(fair_share, "AT_ONCE", at_once)
    sent(app, redis_ledger, 4 * 60, "long")
    long = cast("list[str]", redis_ledger.client.lrange(LIST, 0, -1))
    sent(app, redis_ledger, 4, "short")
    short = cast("str", redis_ledger.client.lindex(LIST, 0))
    for place in range(len(long) + 1):
        messages = [*long[:place], short, *long[place:]]
        redis_ledger.client.delete(LIST)
        redis_ledger.client.rpush(LIST, *messages)
        assert "s" in levelled(redis_ledger, 3), place  # a list with a message less than that late is in order
        assert Counter(cast("list[str]", redis_ledger.client.lrange(LIST, 0, -1))) == Counter(messages)


@pytest.mark.usefixtures("short_steps")
def test_the_head_of_a_long_list_is_filled_again_as_it_is_used_up(app: Celery, redis_ledger: RedisLedger) -> None:
    for name in "abc":
        sent(app, redis_ledger, 800, name)
    taken = ""
    while len(taken) < 300:
        taken += levelled(redis_ledger, 10)
        take(redis_ledger, 10)
    for first in range(0, 300, 30):
        assert max(Counter(taken[first : first + 30]).values()) <= 12


@pytest.mark.usefixtures("short_steps")
def test_a_long_list_is_only_moved_for_a_run_that_its_head_lacks_and_then_to_its_last_message(
    app: Celery, redis_ledger: RedisLedger
) -> None:
    for name, questions in (("a", 4 * 82), ("b", 4 * 81)):
        sent(app, redis_ledger, questions, name)
    fair_share.level(redis_ledger, QUEUE)
    take(redis_ledger, 3)
    behind_the_head = redis_ledger.client.lrange(LIST, 0, -41)
    fair_share.level(redis_ledger, QUEUE)
    assert redis_ledger.client.lrange(LIST, 0, -41) == behind_the_head
    sent(app, redis_ledger, 4, "c")  # alone behind four steps
    assert levelled(redis_ledger, 20).count("c") == 1


def test_of_large_messages_fewer_are_moved_at_a_time(
    app: Celery, redis_ledger: RedisLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, questions in (("a", 800), ("b", 8), ("c", 800)):
        sent(app, redis_ledger, questions, name)
    largest = max(len(each) for each in cast("list[str]", redis_ledger.client.lrange(LIST, 0, -1)))
    monkeypatch.setattr(fair_share, "BYTES_AT_ONCE", 40 * (largest + 10))
    assert levelled(redis_ledger, 20) == "abcabcacacacacacacac"
    assert turns(redis_ledger, 60) != ("abcabc" + 27 * "ac")


@pytest.mark.parametrize("large_one_is", ["first", "last", "nowhere"])
def test_no_step_takes_more_messages_than_the_server_may_be_blocked_for_nor_too_few_to_get_on(
    app: Celery, redis_ledger: RedisLedger, monkeypatch: pytest.MonkeyPatch, large_one_is: str
) -> None:
    for name in ("a", "large", "b"):
        sent(app, redis_ledger, 200 if name == "large" else 100, name, batch_size=200 if name == "large" else 4)
    small, large = (cast("list[str]", redis_ledger.client.lrange(LIST, *where)) for where in ((0, 24), (25, 25)))
    messages = [*small, *small] + (large if large_one_is == "last" else [])
    messages = (large if large_one_is == "first" else []) + messages
    taken: list[int] = []
    step = fair_share._Leveller._call

    def noted(leveller: fair_share._Leveller, first: int, count: int, in_front: int) -> set[str]:
        taken.append(count)
        return step(leveller, first, count, in_front)

    monkeypatch.setattr(fair_share._Leveller, "_call", noted)
    monkeypatch.setattr(fair_share, "AT_ONCE", 30)
    for most_bytes, most in ((5_000_000, 30), (12 * len(large[0]), 30 if large_one_is == "nowhere" else 12), (1, 10)):
        monkeypatch.setattr(fair_share, "BYTES_AT_ONCE", most_bytes)
        redis_ledger.client.delete(LIST)
        redis_ledger.client.lpush(LIST, *messages)
        taken.clear()
        fair_share.level(redis_ledger, QUEUE)
        assert max(taken) == most
        assert Counter(cast("list[str]", redis_ledger.client.lrange(LIST, 0, -1))) == Counter(messages)


def test_thousands_of_messages_are_all_still_there_once_each_when_they_have_changed_places(
    app: Celery, redis_ledger: RedisLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fair_share, "AT_ONCE", 2400)
    for name, questions in (("a", 1300), ("b", 1300), ("c", 1)):  # c is behind the first step
        sent(app, redis_ledger, questions, name, batch_size=1)
    before = Counter(cast("list[str]", redis_ledger.client.lrange(LIST, 0, -1)))
    assert levelled(redis_ledger, 7) == "abcabab"
    assert Counter(cast("list[str]", redis_ledger.client.lrange(LIST, 0, -1))) == before


def test_who_reads_the_list_in_pieces_is_not_deceived(app: Celery, redis_ledger: RedisLedger) -> None:
    for name in "ab":
        sent(app, redis_ledger, 40, name)
    with fair_share.at_rest(redis_ledger, QUEUE):
        assert levelled(redis_ledger) == 10 * "a" + 10 * "b"
    assert levelled(redis_ledger) == 10 * "ab"


def test_killed_at_any_moment_it_loses_nothing_and_doubles_nothing(app: Celery, redis_ledger: RedisLedger) -> None:
    draw = random.Random(7)
    for name in "abc":
        sent(app, redis_ledger, 1200, name)
    before = Counter(cast("list[str]", redis_ledger.client.lrange(LIST, 0, -1)))
    for _ in range(8):
        with subprocess.Popen(
            [sys.executable, "-c", LEVELS, LIST], cwd=ROOT, stdout=subprocess.PIPE, text=True
        ) as leveller:
            assert leveller.stdout is not None
            assert leveller.stdout.readline() == "begins\n"
            time.sleep(draw.uniform(0, 0.1))  # the moment at which it dies
            leveller.kill()
        assert Counter(cast("list[str]", redis_ledger.client.lrange(LIST, 0, -1))) == before


@pytest.mark.usefixtures("short_steps")
def test_a_long_list_is_not_moved_for_a_halted_run_that_its_head_lacks(app: Celery, redis_ledger: RedisLedger) -> None:
    for name in "ab":
        sent(app, redis_ledger, 4 * 80, name)
    halted = sent(app, redis_ledger, 40, "halted")
    redis_ledger.halt(halted.run_id, RunState.PAUSED)
    fair_share.level(redis_ledger, QUEUE)
    before = redis_ledger.client.lrange(LIST, 0, -1)

    fair_share.level(redis_ledger, QUEUE)

    assert redis_ledger.client.lrange(LIST, 0, -1) == before


def test_a_queue_that_takes_long_to_reorder_is_reordered_so_much_the_less_often(
    redis_ledger: RedisLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    levelled: list[str] = []
    clock = iter([10.0, 13.0, 14.0, 17.0])
    monkeypatch.setattr(fair_share, "level", lambda _, queue, __: levelled.append(queue))
    monkeypatch.setattr(fair_share, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    for _ in range(2):
        fair_share.level_if_due(redis_ledger, QUEUE)
        assert levelled == [QUEUE]

    assert 20_000 < redis_ledger.client.pttl(keys.levelled(QUEUE)) <= 30_000


def test_a_queue_that_is_quickly_reordered_is_left_alone_for_some_time_as_well(
    redis_ledger: RedisLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fair_share, "EVERY_S", 60.0)
    monkeypatch.setattr(fair_share, "time", SimpleNamespace(monotonic=lambda: 10.0))
    fair_share.level_if_due(redis_ledger, QUEUE)
    assert 50_000 < redis_ledger.client.pttl(keys.levelled(QUEUE)) <= 60_000


def test_a_queue_that_workers_empty_meanwhile_is_in_order(
    redis_ledger: RedisLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis.Redis, "llen", lambda *_: 9)
    fair_share.level(redis_ledger, QUEUE)
    assert not redis_ledger.client.exists(*keys.broker_lists(QUEUE), keys.moving(QUEUE))


def test_who_reads_the_list_in_pieces_waits_while_it_is_reordered(redis_ledger: RedisLedger) -> None:
    reordered = threading.Event()
    lock = Lock(redis_ledger.client, keys.moving(QUEUE))
    assert lock.acquire(blocking=False)

    def end() -> None:
        reordered.set()
        lock.release()

    timer = threading.Timer(0.3, end)
    timer.start()
    with fair_share.at_rest(redis_ledger, QUEUE):
        waited = reordered.is_set()
    timer.join()

    assert waited


def test_a_reader_that_is_killed_keeps_nobody_from_reordering_for_long(redis_ledger: RedisLedger) -> None:
    with fair_share.at_rest(redis_ledger, QUEUE):
        assert 0 < redis_ledger.client.pttl(keys.moving(QUEUE)) <= 1000 * LOCK_S
