"""A client whose call to Redis timed out repeats it, and a Redis that only stood still executes both.

What a repeated call does to a ledger is in `test_ledger*.py`: their tests run on a ledger that repeats every call.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import redis

from contract import RedisLedger, Settings, fair_share, keys
from contract.connection import connect
from contract.fleet import Fleet
from contract.locks import claim
from contract.sender_lock import sole_sender_if_free
from tests.support import make_questions, open_run

STANDSTILL_S = 1.5


@pytest.fixture
def impatient(settings: Settings) -> Iterator[RedisLedger]:
    client = connect(settings, timeout_s=0.2, retries=50)
    yield RedisLedger(client)
    client.close()


def test_a_beginning_that_is_repeated_counts_one_attempt(redis_ledger: RedisLedger, impatient: RedisLedger) -> None:
    run = open_run(redis_ledger, make_questions(3))
    redis_ledger.begin(run.run_id, ["q0"])
    redis_ledger.begin(run.run_id, ["q0", "q1"])
    before = executed(redis_ledger.client)
    with standing_still(redis_ledger.client):
        begun = impatient.begin(run.run_id, ["q0", "q1", "q2"], count_below=2)
    assert executed(redis_ledger.client) > before + 1
    assert [(each.attempts, each.counted) for each in begun] == [(2, False), (2, True), (1, True)]
    assert [each.attempts for each in redis_ledger.begin(run.run_id, ["q0", "q1", "q2"])] == [3, 3, 2]


def test_a_chore_that_is_claimed_repeatedly_is_the_claimants(repeating_ledger: RedisLedger) -> None:
    assert claim(repeating_ledger.client, keys.audit_lock("run"))
    assert not claim(repeating_ledger.client, keys.audit_lock("run"))


def test_a_boot_that_is_reported_repeatedly_is_one_boot(repeating_ledger: RedisLedger) -> None:
    fleet = Fleet(repeating_ledger.client)
    for _ in range(2):
        fleet.booted("gpu0", fleet.boots("gpu0") + 1)
    assert fleet.boots("gpu0") == 2


def test_a_sender_that_repeats_its_call_sends_alone_and_lets_others_send_afterwards(
    repeating_ledger: RedisLedger, redis_ledger: RedisLedger
) -> None:
    with sole_sender_if_free(repeating_ledger, "run") as mine, sole_sender_if_free(redis_ledger, "run") as others:
        assert (mine, others) == (True, False)
    with sole_sender_if_free(redis_ledger, "run") as others:
        assert others


def test_a_queue_whose_reader_repeats_its_calls_is_at_rest_as_long_as_it_is_read(
    repeating_ledger: RedisLedger, redis_ledger: RedisLedger
) -> None:
    with fair_share.at_rest(repeating_ledger, "score.m"):
        assert redis_ledger.client.exists(keys.moving("score.m"))
    assert not redis_ledger.client.exists(keys.moving("score.m"))


@contextmanager
def standing_still(client: redis.Redis) -> Iterator[None]:
    """Stop the server, and continue it after `STANDSTILL_S`."""
    server = int(client.info("server")["process_id"])
    os.kill(server, signal.SIGSTOP)
    timer = threading.Timer(STANDSTILL_S, os.kill, (server, signal.SIGCONT))
    timer.start()
    try:
        yield
    finally:
        timer.join()


def executed(client: redis.Redis) -> int:
    """Return how many scripts the server has executed."""
    return int(client.info("commandstats")["cmdstat_evalsha"]["calls"])
