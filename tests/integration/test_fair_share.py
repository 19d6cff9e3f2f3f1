"""Runs share a queue: by turns, in questions, by weight; and nothing is lost where messages change their places."""

from __future__ import annotations

import functools
import json
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import redis
from celery import Celery
from click.testing import CliRunner

from contract import RedisLedger, Run, Settings, fair_share, keys
from contract.errors import RedisUnreachable
from contract.fleet import Fleet, WorkerRecord, WorkerState
from contract.ledger import RunState
from contract.locks import LOCK_S, Lock
from contract.priority import Priority
from producer.cli import main
from tests.integration.runs import QUEUE, messages_in, send, verdicts, wait_finished
from tests.support import ROOT, SIMULATED_MODEL, make_questions, open_run, wait_until, worker
from workers.janitor import Janitor

LIST = keys.broker_lists(QUEUE)[2]

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


def sent(
    app: Celery,
    ledger: RedisLedger,
    name: str,
    questions: int,
    size: int = 4,
    weight: int = 1,
    priority: Priority = Priority.NORMAL,
) -> Run:
    """A run called `name` whose questions are on the queue in messages of `size`."""
    run = open_run(ledger, make_questions(questions), name=name)
    fair_share.weigh(ledger, run.run_id, weight)
    send(app, ledger, run, size, priority)
    return run


def turns(ledger: RedisLedger, count: int | None = None) -> str:
    """Whose messages are taken next: the first letters of their runs."""
    return "".join(message.run_id[0] for message in messages_in(ledger.client, LIST)[:count])


def take(ledger: RedisLedger, count: int) -> None:
    """Messages leave the queue as workers take them."""
    ledger.client.rpop(LIST, count)


# The order of turns


def test_runs_take_turns_and_the_one_that_came_first_begins(app: Celery, redis_ledger: RedisLedger) -> None:
    for name, questions in (("a", 24), ("b", 8), ("c", 16)):
        sent(app, redis_ledger, name, questions)
    assert turns(redis_ledger) == "aaaaaabbcccc"
    fair_share.level(redis_ledger, QUEUE)
    assert turns(redis_ledger) == "abcabcacacaa"


def test_turns_are_counted_in_questions_not_in_messages(app: Celery, redis_ledger: RedisLedger) -> None:
    sent(app, redis_ledger, "large", 64, size=16)
    sent(app, redis_ledger, "small", 32, size=4)
    fair_share.level(redis_ledger, QUEUE)
    assert turns(redis_ledger) == "lsssslssssll"


def test_messages_of_a_single_question_take_turns_as_well(app: Celery, redis_ledger: RedisLedger) -> None:
    sent(app, redis_ledger, "large", 12, size=4)
    sent(app, redis_ledger, "single", 3, size=1)
    fair_share.level(redis_ledger, QUEUE)
    assert turns(redis_ledger) == "lsssll"


def test_a_run_of_weight_three_gets_three_turns_where_another_gets_one(app: Celery, redis_ledger: RedisLedger) -> None:
    sent(app, redis_ledger, "light", 80)
    sent(app, redis_ledger, "heavy", 240, weight=3)
    fair_share.level(redis_ledger, QUEUE)
    assert Counter(turns(redis_ledger, 40)) == {"h": 30, "l": 10}


def test_runs_of_equal_weight_take_turns_however_large_that_is_and_however_small_their_messages(
    app: Celery, redis_ledger: RedisLedger
) -> None:
    for name in "ab":
        sent(app, redis_ledger, name, 4, size=1, weight=8)
    fair_share.level(redis_ledger, QUEUE)
    assert turns(redis_ledger) == "abababab"


@pytest.mark.parametrize("weights", [(1, 1), (1, 3), (5, 2)])
def test_however_often_a_list_is_levelled_while_it_is_taken_from_the_shares_are_kept(
    app: Celery, redis_ledger: RedisLedger, weights: tuple[int, int]
) -> None:
    draw = random.Random(1)
    for name, weight in zip("ab", weights, strict=True):
        sent(app, redis_ledger, name, 4 * 200, weight=weight)
    taken = ""
    while len(taken) < 210:
        fair_share.level(redis_ledger, QUEUE)
        count = draw.randint(1, 3)
        taken += turns(redis_ledger, count)
        take(redis_ledger, count)
    share = Counter(taken[:210])["a"] / 210
    assert share == pytest.approx(weights[0] / sum(weights), abs=0.02)


def test_a_list_that_is_in_order_is_left_alone(app: Celery, redis_ledger: RedisLedger) -> None:
    sent(app, redis_ledger, "a", 40)
    sent(app, redis_ledger, "b", 400, weight=3)
    fair_share.level(redis_ledger, QUEUE)
    take(redis_ledger, 7)
    before = redis_ledger.client.lrange(LIST, 0, -1)
    fair_share.level(redis_ledger, QUEUE)
    assert redis_ledger.client.lrange(LIST, 0, -1) == before


def test_a_message_that_is_no_more_than_its_own_turn_late_stays_where_it_is(
    app: Celery, redis_ledger: RedisLedger
) -> None:
    sent(app, redis_ledger, "a", 8)
    sent(app, redis_ledger, "b", 4)
    fair_share.level(redis_ledger, QUEUE)
    assert turns(redis_ledger) == "aab", "as after `b` was taken off `baab`"


def test_runs_that_are_put_off_wait_behind_the_others_but_for_one_message_which_tries_again(
    app: Celery, redis_ledger: RedisLedger
) -> None:
    judged, *_ = [sent(app, redis_ledger, name, n) for name, n in (("a", 24), ("b", 8), ("c", 16))]
    fair_share.level(redis_ledger, QUEUE, put_off={judged.run_id})
    assert turns(redis_ledger) == "abcbcccaaaaa"
    take(redis_ledger, 1)
    fair_share.level(redis_ledger, QUEUE, put_off={judged.run_id})
    assert turns(redis_ledger) == "bcabcccaaaa"
    fair_share.level(redis_ledger, QUEUE)
    assert turns(redis_ledger) == "bcabcacacaa"


def test_of_a_run_that_is_put_off_one_message_tries_again_also_if_messages_are_small(
    app: Celery, redis_ledger: RedisLedger
) -> None:
    judged = sent(app, redis_ledger, "a", 3, size=1)
    sent(app, redis_ledger, "b", 8)
    fair_share.level(redis_ledger, QUEUE, put_off={judged.run_id})
    assert turns(redis_ledger) == "abbaa"


def test_a_run_that_one_worker_puts_off_keeps_its_turns_while_another_serves_it(
    app: Celery, redis_ledger: RedisLedger, settings: Settings
) -> None:
    run, _ = [sent(app, redis_ledger, name, 16) for name in "ab"]
    fleet = Fleet(redis_ledger.client)
    for name, puts_off in (("gpu0", {run.run_id: "update the worker"}), ("gpu1", {})):
        fleet.join(
            WorkerRecord(
                name=name, model=SIMULATED_MODEL, queue=QUEUE, state=WorkerState.READY, puts_off=dict(puts_off)
            )
        )
    Janitor(settings, app, "gpu0", QUEUE).round()
    assert turns(redis_ledger) == "abababab"


@pytest.mark.usefixtures("short_steps")
def test_a_run_that_is_put_off_does_not_keep_others_from_the_head_of_a_long_list(
    app: Celery, redis_ledger: RedisLedger
) -> None:
    judged = sent(app, redis_ledger, "a", 4 * 80)
    sent(app, redis_ledger, "b", 4 * 5)
    fair_share.level(redis_ledger, QUEUE, put_off={judged.run_id})
    assert Counter(turns(redis_ledger, 6)) == {"b": 5, "a": 1}
    assert Counter(turns(redis_ledger)) == {"a": 80, "b": 5}
    take(redis_ledger, 6)
    before = redis_ledger.client.lrange(LIST, 0, -1)
    fair_share.level(redis_ledger, QUEUE, put_off={judged.run_id})
    assert redis_ledger.client.lrange(LIST, 0, -1) == before, "there is nobody else"


def test_a_changed_weight_changes_the_order(app: Celery, redis_ledger: RedisLedger) -> None:
    run = sent(app, redis_ledger, "a", 80)
    sent(app, redis_ledger, "b", 80)
    fair_share.level(redis_ledger, QUEUE)
    assert turns(redis_ledger, 8) == "abababab"
    fair_share.weigh(redis_ledger, run.run_id, 3)
    fair_share.level(redis_ledger, QUEUE)
    assert Counter(turns(redis_ledger, 8)) == {"a": 6, "b": 2}


def test_a_weight_can_be_taken_back(app: Celery, redis_ledger: RedisLedger) -> None:
    run = sent(app, redis_ledger, "a", 16, weight=3)
    assert fair_share.weight_of(redis_ledger, run.run_id) == 3
    fair_share.weigh(redis_ledger, run.run_id, 1)
    assert fair_share.weight_of(redis_ledger, run.run_id) == 1
    sent(app, redis_ledger, "b", 16)
    fair_share.level(redis_ledger, QUEUE)
    assert turns(redis_ledger) == "abababab"


@pytest.mark.parametrize("state", [RunState.PAUSED, RunState.CANCELLED])
def test_a_halted_run_takes_no_turn_that_another_wants(app: Celery, redis_ledger: RedisLedger, state: RunState) -> None:
    halted = sent(app, redis_ledger, "halted", 16)
    for name in ("a", "b"):
        sent(app, redis_ledger, name, 8)
    redis_ledger.halt(halted.run_id, state)
    fair_share.level(redis_ledger, QUEUE)
    assert turns(redis_ledger) == "ababhhhh"


def test_a_purged_runs_messages_wait_behind_the_others_and_its_weight_is_forgotten(
    app: Celery, redis_ledger: RedisLedger
) -> None:
    gone = sent(app, redis_ledger, "gone", 8, weight=7)
    sent(app, redis_ledger, "a", 8)
    redis_ledger.purge(gone.run_id)
    fair_share.level(redis_ledger, QUEUE)
    assert turns(redis_ledger) == "aagg"
    assert fair_share.weight_of(redis_ledger, gone.run_id) == 1


def test_rubbish_in_the_list_stays_in_it_and_is_taken_first(app: Celery, redis_ledger: RedisLedger) -> None:
    sent(app, redis_ledger, "a", 40)
    sent(app, redis_ledger, "b", 8)
    rubbish = ["", "no message", '"argsrepr": "', '"argsrepr": "x: 1 questions']
    redis_ledger.client.lpush(LIST, *rubbish)
    fair_share.level(redis_ledger, QUEUE)
    assert redis_ledger.client.lrange(LIST, -4, -1) == rubbish[::-1]
    assert redis_ledger.client.llen(LIST) == 16


def test_each_priority_is_ordered_by_itself(app: Celery, redis_ledger: RedisLedger) -> None:
    for name, priority in (("a", Priority.LOW), ("b", Priority.LOW), ("c", Priority.HIGH)):
        sent(app, redis_ledger, name, 12, priority=priority)
    fair_share.level(redis_ledger, QUEUE)
    lists = keys.broker_lists(QUEUE)
    orders = ["".join(each.run_id[0] for each in messages_in(redis_ledger.client, name)) for name in lists]
    assert orders == ["ccc", "", "", "ababab"]


# Long lists


@pytest.fixture
def short_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is long for these tests is quickly made."""
    monkeypatch.setattr(fair_share, "AT_ONCE", 40)


@pytest.mark.usefixtures("short_steps")
def test_in_a_long_list_the_head_is_shared_by_all_runs_wherever_they_lie(
    app: Celery, redis_ledger: RedisLedger
) -> None:
    for name, questions in (("a", 800), ("b", 400), ("c", 8), ("d", 400)):
        sent(app, redis_ledger, name, questions)
    before = Counter(cast("list[str]", redis_ledger.client.lrange(LIST, 0, -1)))
    fair_share.level(redis_ledger, QUEUE)
    assert turns(redis_ledger, 20) == "abcdabcdabdabdabdabd"
    assert Counter(cast("list[str]", redis_ledger.client.lrange(LIST, 0, -1))) == before


@pytest.mark.parametrize("at_once", [20, 3000], ids=["in a long list", "in a short list"])
def test_a_run_gets_its_turn_wherever_its_only_message_lies(
    app: Celery, redis_ledger: RedisLedger, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr(fair_share, "AT_ONCE", at_once)
    sent(app, redis_ledger, "long", 4 * 60)
    long = cast("list[str]", redis_ledger.client.lrange(LIST, 0, -1))
    sent(app, redis_ledger, "short", 4)
    short = cast("str", redis_ledger.client.lindex(LIST, 0))
    for place in range(len(long) + 1):
        messages = [*long[:place], short, *long[place:]]
        redis_ledger.client.delete(LIST)
        redis_ledger.client.rpush(LIST, *messages)
        fair_share.level(redis_ledger, QUEUE)
        assert "s" in turns(redis_ledger, 3), place  # a list with a message less than that late is in order
        assert Counter(cast("list[str]", redis_ledger.client.lrange(LIST, 0, -1))) == Counter(messages)


@pytest.mark.usefixtures("short_steps")
def test_the_head_of_a_long_list_is_filled_again_as_it_is_used_up(app: Celery, redis_ledger: RedisLedger) -> None:
    for name in "abc":
        sent(app, redis_ledger, name, 800)
    taken = ""
    while len(taken) < 300:
        fair_share.level(redis_ledger, QUEUE)
        taken += turns(redis_ledger, 10)
        take(redis_ledger, 10)
    for first in range(0, 300, 30):
        assert max(Counter(taken[first : first + 30]).values()) <= 12


@pytest.mark.usefixtures("short_steps")
def test_a_long_list_is_only_moved_for_a_run_that_its_head_lacks_and_then_to_its_last_message(
    app: Celery, redis_ledger: RedisLedger
) -> None:
    for name, questions in (("a", 4 * 82), ("b", 4 * 81)):
        sent(app, redis_ledger, name, questions)
    fair_share.level(redis_ledger, QUEUE)
    take(redis_ledger, 3)
    behind_the_head = redis_ledger.client.lrange(LIST, 0, -41)
    fair_share.level(redis_ledger, QUEUE)
    assert redis_ledger.client.lrange(LIST, 0, -41) == behind_the_head
    sent(app, redis_ledger, "c", 4)  # alone behind four steps
    fair_share.level(redis_ledger, QUEUE)
    assert turns(redis_ledger, 20).count("c") == 1


def test_of_large_messages_fewer_are_moved_at_a_time(
    app: Celery, redis_ledger: RedisLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, questions in (("a", 800), ("b", 8), ("c", 800)):
        sent(app, redis_ledger, name, questions)
    largest = max(len(each) for each in cast("list[str]", redis_ledger.client.lrange(LIST, 0, -1)))
    monkeypatch.setattr(fair_share, "BYTES_AT_ONCE", 40 * (largest + 10))
    fair_share.level(redis_ledger, QUEUE)
    assert turns(redis_ledger, 20) == "abcabcacacacacacacac"
    assert turns(redis_ledger, 60) != ("abcabc" + 27 * "ac")


@pytest.mark.parametrize("large_one_is", ["first", "last", "nowhere"])
def test_no_step_takes_more_messages_than_the_server_may_be_blocked_for_nor_too_few_to_get_on(
    app: Celery, redis_ledger: RedisLedger, monkeypatch: pytest.MonkeyPatch, large_one_is: str
) -> None:
    for name in ("a", "large", "b"):
        sent(app, redis_ledger, name, 200 if name == "large" else 100, size=200 if name == "large" else 4)
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
        sent(app, redis_ledger, name, questions, size=1)
    before = Counter(cast("list[str]", redis_ledger.client.lrange(LIST, 0, -1)))
    fair_share.level(redis_ledger, QUEUE)
    assert turns(redis_ledger, 7) == "abcabab"
    assert Counter(cast("list[str]", redis_ledger.client.lrange(LIST, 0, -1))) == before


def test_who_reads_the_list_in_pieces_is_not_deceived(app: Celery, redis_ledger: RedisLedger) -> None:
    for name in "ab":
        sent(app, redis_ledger, name, 40)
    with fair_share.at_rest(redis_ledger, QUEUE):
        fair_share.level(redis_ledger, QUEUE)
        assert turns(redis_ledger) == 10 * "a" + 10 * "b"
    fair_share.level(redis_ledger, QUEUE)
    assert turns(redis_ledger) == 10 * "ab"


def test_killed_at_any_moment_it_loses_nothing_and_doubles_nothing(app: Celery, redis_ledger: RedisLedger) -> None:
    draw = random.Random(7)
    for name in "abc":
        sent(app, redis_ledger, name, 1200)
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


# With workers


def settled_in_order(ledger: RedisLedger, runs: Sequence[Run]) -> str:
    """First letters of the runs of all verdicts, as they were settled."""
    found = [(verdict.settled_at, run.run_id[0]) for run in runs for verdict in verdicts(ledger, run)]
    return "".join(letter for _, letter in sorted(found))


@contextmanager
def stopped(*workers: subprocess.Popen[bytes]) -> Iterator[None]:
    """They do nothing meanwhile, which must be for less than their leases."""
    for each in workers:
        each.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        for each in workers:
            each.send_signal(signal.SIGCONT)


def test_a_short_run_behind_a_long_one_ends_after_about_twice_its_own_time(
    app: Celery, redis_ledger: RedisLedger, tmp_path: Path
) -> None:
    long, short = sent(app, redis_ledger, "long", 2000), sent(app, redis_ledger, "short", 160)
    with worker(tmp_path / "log", batch_size=8, simulated={"call_ms": 40}):
        wait_finished(redis_ledger, short)
    order = settled_in_order(redis_ledger, [long, short])
    # As many of the other as its own 160, and what the worker had taken and committed around it.
    assert order[: order.rindex("s")].count("l") < 160 + 100


def test_a_run_that_comes_while_others_are_under_way_gets_its_turns_soon(
    app: Celery, redis_ledger: RedisLedger, tmp_path: Path
) -> None:
    long = sent(app, redis_ledger, "long", 4000)
    with worker(tmp_path / "log", batch_size=8, simulated={"call_ms": 50}):
        wait_until(lambda: redis_ledger.counts(long.run_id).settled > 0, "the long run to begin")
        short = sent(app, redis_ledger, "short", 40)
        wait_finished(redis_ledger, short)
        assert redis_ledger.counts(long.run_id).settled < 2000


def test_a_run_that_only_a_newer_worker_can_read_does_not_hold_up_what_was_sent_after_it(
    app: Celery, redis_ledger: RedisLedger, tmp_path: Path
) -> None:
    """Its messages went round in the queue, one batch a second, and the other run waited for each of them."""
    newer = sent(app, redis_ledger, "newer", 3200)
    meta = keys.RunKeys(newer.run_id).meta
    spec = json.loads(cast("str", redis_ledger.client.get(meta)))
    redis_ledger.client.set(meta, json.dumps({**spec, "a_later_field": 1}))
    mine = sent(app, redis_ledger, "mine", 40)
    with worker(tmp_path / "log", batch_size=4):
        wait_finished(redis_ledger, mine)
    assert "a_later_field cannot be read here" in (tmp_path / "log").read_text()
    assert len(list(redis_ledger.unsettled(newer.run_id))) == 3200


def test_three_runs_on_two_workers_go_on_by_their_weights(
    app: Celery, redis_ledger: RedisLedger, tmp_path: Path
) -> None:
    with (
        worker(tmp_path / "w0", batch_size=8, simulated={"call_ms": 40}) as one,
        worker(tmp_path / "w1", name="w1", batch_size=8, simulated={"call_ms": 40}) as other,
    ):
        with stopped(one, other):  # both are there when it begins, and so is all of it
            runs = [sent(app, redis_ledger, name, 400, weight=of) for name, of in (("a", 1), ("b", 1), ("c", 3))]
            fair_share.level(redis_ledger, QUEUE)
        wait_finished(redis_ledger, *runs)
    assert {verdict.worker for run in runs for verdict in verdicts(redis_ledger, run)} == {"w0@test", "w1@test"}
    shares = Counter(settled_in_order(redis_ledger, runs)[100:500])
    assert {name: pytest.approx(share, abs=40) for name, share in (("a", 80), ("b", 80), ("c", 240))} == shares


def test_a_worker_killed_while_runs_take_turns_costs_no_question(
    app: Celery, redis_ledger: RedisLedger, tmp_path: Path
) -> None:
    runs = [sent(app, redis_ledger, name, 300) for name in "ab"]
    with worker(tmp_path / "first", batch_size=8, simulated={"call_ms": 40}) as first:
        wait_until(lambda: redis_ledger.counts(runs[1].run_id).settled >= 40, "a part of the second run")
        first.kill()
        first.wait()
    with worker(tmp_path / "second", batch_size=8):
        wait_finished(redis_ledger, *runs)
    for run in runs:
        assert redis_ledger.counts(run.run_id).settled == len(verdicts(redis_ledger, run)) == 300


def test_two_producers_that_send_at_the_same_time_share_from_the_beginning(
    app: Celery, redis_ledger: RedisLedger, tmp_path: Path
) -> None:
    runs = [open_run(redis_ledger, make_questions(600), name=name) for name in "ab"]

    with ThreadPoolExecutor() as pool:
        assert list(pool.map(functools.partial(send, app, redis_ledger), runs)) == [150, 150]
    with worker(tmp_path / "log", batch_size=8, simulated={"call_ms": 30}):
        wait_finished(redis_ledger, *runs)
    order = settled_in_order(redis_ledger, runs)
    assert Counter(order) == {"a": 600, "b": 600}
    assert Counter(order[:400]) == {"a": pytest.approx(200, abs=40), "b": pytest.approx(200, abs=40)}


# From the command line


def test_a_weight_is_given_with_a_run_seen_in_its_status_and_changed(redis_url: str, tmp_path: Path) -> None:
    def said(*words: str) -> str:
        result = CliRunner().invoke(main, ["--redis", redis_url, *words])
        assert result.exit_code == 0, result.output
        return result.output

    file = tmp_path / "q.jsonl"
    file.write_text('{"id": "q", "question": "1 + 1?", "choices": ["1", "2"], "answer": "B"}\n')
    said("enqueue", str(file), "--weight", "3")
    assert "3 turns for each turn of other runs" in said("status")
    said("weight", "last", "1")
    assert "turns for each turn" not in said("status")
    assert CliRunner().invoke(main, ["--redis", redis_url, "weight", "last", "0"]).exit_code == 2


@pytest.mark.usefixtures("short_steps")
def test_a_long_list_is_not_moved_for_a_halted_run_that_its_head_lacks(app: Celery, redis_ledger: RedisLedger) -> None:
    for name in "ab":
        sent(app, redis_ledger, name, 4 * 80)
    halted = sent(app, redis_ledger, "halted", 40)
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


@pytest.mark.parametrize(
    ("command", "call"),
    [
        ("HSET", lambda ledger: fair_share.weigh(ledger, "run", 2)),
        ("HDEL", lambda ledger: fair_share.weigh(ledger, "run", 1)),
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
