"""Only one sends the questions of a run at a time."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import redis
from celery import Celery

from contract import RedisLedger, keys
from contract.audit import heal, looks_stalled
from contract.fair_share import at_rest, level
from contract.process import died_here, this_process
from contract.sender_lock import sole_sender, sole_sender_if_free, sole_sender_of_free
from tests.integration.runs import QUEUE
from tests.support import PATIENCE_S, make_questions, open_run, process, wait_until


def test_nothing_is_healed_while_a_producer_is_sending_and_no_two_send_at_once(
    redis_ledger: RedisLedger, app: Celery, client: redis.Redis
) -> None:
    run = open_run(redis_ledger, make_questions(2))
    with ThreadPoolExecutor(1) as pool, ExitStack() as later:
        with sole_sender(redis_ledger, run.run_id):
            assert looks_stalled(redis_ledger, run), "written, and not yet sent"
            assert heal(redis_ledger, app, run, batch_size=2) == (0, 0)
            second = pool.submit(later.enter_context, sole_sender(redis_ledger, run.run_id))
            time.sleep(0.3)
            assert not second.done()
            client.delete(keys.sending(run.run_id))  # as it runs out when its holder was killed
            second.result(timeout=PATIENCE_S)
        assert client.exists(keys.sending(run.run_id)), "the first gives back only what is its own"


def test_a_sender_that_was_killed_here_is_not_waited_for(redis_ledger: RedisLedger, tmp_path: Path) -> None:
    hold = """
import contract.locks, contract.sender_lock, time
from contract import RedisLedger, load_settings
contract.locks.LOCK_S = 3600
with contract.sender_lock.sole_sender(RedisLedger.connect(load_settings()), "run"):
    print("mine", flush=True)
    time.sleep(3600)
"""
    with process("-c", hold, log=tmp_path / "log") as sender:
        wait_until(lambda: "mine" in (tmp_path / "log").read_text(), "the right to be taken")
        with sole_sender_if_free(redis_ledger, "run") as mine:
            assert not mine, "it is alive"
        sender.kill()
        sender.wait()
        with sole_sender_if_free(redis_ledger, "run") as mine:
            assert mine
    redis_ledger.client.set(keys.sending("run"), "somebody of an older version")
    with sole_sender_if_free(redis_ledger, "run") as mine:
        assert not mine


def test_who_was_killed_here_while_it_read_or_reordered_a_queue_is_not_waited_for(
    redis_ledger: RedisLedger, tmp_path: Path
) -> None:
    """`requeue` said nothing for ten seconds."""
    hold = f"""
import contract.locks, contract.fair_share, time
from contract import RedisLedger, load_settings
contract.locks.LOCK_S = 3600
with contract.fair_share.at_rest(RedisLedger.connect(load_settings()), {QUEUE!r}):
    print("mine", flush=True)
    time.sleep(3600)
"""
    with process("-c", hold, log=tmp_path / "log") as reader:
        wait_until(lambda: "mine" in (tmp_path / "log").read_text(), "the queue to be read")
        reader.kill()
        reader.wait()
        with at_rest(redis_ledger, QUEUE):
            assert redis_ledger.client.exists(keys.moving(QUEUE))


def test_who_reorders_a_queue_tells_which_process_it_is_so_that_others_know_when_it_was_killed(
    redis_ledger: RedisLedger, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    holders: list[str] = []

    def look(_: object) -> None:
        holders.append(str(client.get(keys.moving(QUEUE))))

    monkeypatch.setattr("contract.fair_share._Leveller.level", look)
    level(redis_ledger, QUEUE)
    assert {each.partition(" ")[2] for each in holders} == {this_process()}


def test_a_command_that_waits_only_a_moment_for_a_queue_to_be_at_rest_says_nothing(
    redis_ledger: RedisLedger, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("contract.fair_share.UNTOLD_S", PATIENCE_S)
    redis_ledger.client.set(keys.moving(QUEUE), "somebody on another host")
    looked = mock.Mock(side_effect=died_here)
    monkeypatch.setattr("contract.locks.died_here", looked)
    with ThreadPoolExecutor(1) as pool, ExitStack() as later:
        waiting = pool.submit(later.enter_context, at_rest(redis_ledger, QUEUE))
        wait_until(lambda: looked.call_count > 1, "it to wait")
        redis_ledger.client.delete(keys.moving(QUEUE))
        waiting.result(timeout=PATIENCE_S)
    assert caplog.messages == []


def test_a_command_that_waits_for_a_queue_to_be_at_rest_says_so_after_a_while(
    redis_ledger: RedisLedger, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("contract.fair_share.UNTOLD_S", 0.2)
    redis_ledger.client.set(keys.moving(QUEUE), "somebody on another host")
    looked = mock.Mock(side_effect=died_here)
    monkeypatch.setattr("contract.locks.died_here", looked)
    with ThreadPoolExecutor(1) as pool, ExitStack() as later:
        waiting = pool.submit(later.enter_context, at_rest(redis_ledger, QUEUE))
        wait_until(lambda: bool(caplog.messages), "the wait to be told")
        told_at = looked.call_count
        wait_until(lambda: looked.call_count > told_at + 2, "it to look again, and again")
        redis_ledger.client.delete(keys.moving(QUEUE))
        waiting.result(timeout=PATIENCE_S)
    said = f"another process is reading or reordering the queue {QUEUE}"
    assert caplog.messages == [f"{said}; waiting until it is done, or has been silent for 10 s"]


def test_of_two_who_find_a_sender_dead_the_slower_one_leaves_the_faster_one_the_right(
    redis_ledger: RedisLedger, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    def others_take_over(_: str) -> bool:
        client.set(keys.sending("run"), "others")
        return True

    client.set(keys.sending("run"), "token of-who-died")
    monkeypatch.setattr("contract.locks.died_here", others_take_over)
    with sole_sender_if_free(redis_ledger, "run") as mine:
        assert not mine
        assert client.get(keys.sending("run")) == "others"


def test_of_several_runs_those_are_held_that_nobody_else_is_sending(
    redis_ledger: RedisLedger, client: redis.Redis
) -> None:
    with sole_sender(redis_ledger, "sent"):
        with sole_sender_of_free(redis_ledger, ["one", "sent", "two"]) as mine:
            assert mine == {"one", "two"}
            with sole_sender_of_free(redis_ledger, ["one", "two"]) as others:
                assert not others
        assert not client.exists(keys.sending("one"), keys.sending("two"))
        assert client.exists(keys.sending("sent"))


@pytest.mark.parametrize(
    ("right", "key"),
    [
        (partial(sole_sender, run_id="run"), keys.sending("run")),
        (partial(sole_sender_if_free, run_id="run"), keys.sending("run")),
        (partial(sole_sender_of_free, run_ids=["other", "run"]), keys.sending("run")),
        (partial(at_rest, queue=QUEUE), keys.moving(QUEUE)),
    ],
)
def test_who_needs_a_right_for_long_keeps_it(
    redis_ledger: RedisLedger, client: redis.Redis, monkeypatch: pytest.MonkeyPatch, right: Any, key: str
) -> None:
    monkeypatch.setattr("contract.locks.LOCK_S", 3.0)
    with right(redis_ledger):
        for _ in range(5):
            time.sleep(0.8)
            assert client.exists(key)
    assert not client.exists(key)
