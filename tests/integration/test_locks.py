"""Who may do a chore that one worker does for all."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import redis

from contract import keys
from contract.locks import LOCK_S, claim
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
