"""Who may do a chore that one worker does for all."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import NoReturn

import pytest
import redis

from contract import keys, locks
from contract.locks import LOCK_S, Lock, claim, holding
from tests.support import wait_until


def test_a_chore_is_claimed_by_one_alone(client: redis.Redis) -> None:
    together = threading.Barrier(4)

    def claimed(_: int) -> bool:
        together.wait()
        return claim(client, keys.restore_lock("gpu0"))

    with ThreadPoolExecutor(4) as pool:
        assert sorted(pool.map(claimed, range(4))) == [False, False, False, True]
    assert claim(client, keys.restore_lock("gpu1")), "another chore is another claim"
    assert not claim(client, keys.restore_lock("gpu0"))


def test_a_claim_runs_out_so_that_a_chore_outlives_whoever_claimed_it(client: redis.Redis) -> None:
    assert claim(client, keys.audit_lock("run"))
    assert not claim(client, keys.audit_lock("run"))
    assert 0 < client.pttl(keys.audit_lock("run")) <= 1000 * LOCK_S
    client.pexpire(keys.audit_lock("run"), 1)
    wait_until(lambda: claim(client, keys.audit_lock("run")), "the claim to run out")


def test_a_lock_is_free_again_after_work_that_failed(client: redis.Redis) -> None:
    lock = Lock(client, keys.sending("run"))
    assert lock.acquire(blocking=False)
    with pytest.raises(ZeroDivisionError), holding(lock):
        raise ZeroDivisionError
    assert not client.exists(keys.sending("run"))


def test_a_renewal_that_redis_was_away_for_is_not_the_last(
    client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lock would run out under a long audit, and a second one would send the same questions."""
    monkeypatch.setattr(locks, "LOCK_S", 1)
    lock = Lock(client, keys.sending("run"))
    renewals: list[bool] = []

    def renew() -> bool:
        renewals.append(True)
        raise redis.ConnectionError("away")

    monkeypatch.setattr(lock, "reacquire", renew)
    assert lock.acquire(blocking=False)
    with holding(lock):
        wait_until(lambda: len(renewals) > 1, "another renewal")


def test_a_lock_is_no_longer_renewed_after_work_that_failed(client: redis.Redis) -> None:
    """Each audit would leave a thread behind that goes on asking Redis."""
    lock = Lock(client, keys.sending("run"))
    before, meanwhile = set(threading.enumerate()), set[threading.Thread]()

    def fail() -> NoReturn:
        meanwhile.update(threading.enumerate())
        raise ZeroDivisionError

    assert lock.acquire(blocking=False)
    with pytest.raises(ZeroDivisionError), holding(lock):
        fail()
    assert meanwhile > before
    assert set(threading.enumerate()) == before


def test_a_redis_that_is_away_is_waited_for_once_and_not_once_for_every_lock(
    client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end of a requeue of a hundred runs took as many timeouts, or twice as many."""
    monkeypatch.setattr(locks, "LOCK_S", 0.1)
    mine = [Lock(client, keys.sending(f"{n}")) for n in range(3)]
    asked: list[str] = []

    def vanish(lock: Lock) -> NoReturn:
        asked.append(lock.name)
        raise redis.TimeoutError

    assert all(each.acquire(blocking=False) for each in mine)
    monkeypatch.setattr(Lock, "reacquire", vanish)
    monkeypatch.setattr(Lock, "release", vanish)
    with holding(*mine):
        wait_until(lambda: bool(asked), "a renewal")
    assert set(asked) == {keys.sending("0")}


def test_of_several_locks_the_others_are_renewed_and_released_where_one_is_lost(
    client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks, "LOCK_S", 4)
    lost, kept = (Lock(client, keys.sending(name)) for name in ("lost", "kept"))
    assert all(each.acquire(blocking=False) for each in (lost, kept))
    client.set(keys.sending("lost"), "another's")
    client.pexpire(keys.sending("kept"), 3500)
    with holding(lost, kept):
        wait_until(lambda: client.pttl(keys.sending("kept")) > 3500, "a renewal")
    assert client.exists(keys.sending("lost"))
    assert not client.exists(keys.sending("kept"))
