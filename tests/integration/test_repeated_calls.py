"""A client whose call to Redis timed out repeats it, and a Redis that only stood still executes both."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import redis

from contract import RedisLedger, Settings
from contract.connection import connect
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
        begun = impatient.begin(run.run_id, ["q0", "q1", "q2"], suspect_from=2)
    assert executed(redis_ledger.client) > before + 1
    assert [(each.attempts, each.counted) for each in begun] == [(2, False), (2, True), (1, True)]
    assert [each.attempts for each in redis_ledger.begin(run.run_id, ["q0", "q1", "q2"])] == [3, 3, 2]


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
