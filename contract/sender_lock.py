"""A lock that allows one sender per run at a time, so that no question is sent twice."""

from __future__ import annotations

import contextlib
import logging
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import cast

from redis.exceptions import LockNotOwnedError

from contract import keys
from contract.connection import translating
from contract.ledger import RedisLedger
from contract.locks import LOCK_S, Lock, holding
from contract.process import died_here, this_process

__all__ = ["sole_sender", "sole_sender_if_free", "sole_sender_of_free"]

log = logging.getLogger(__name__)

#: Seconds between checks while waiting for another sender.
LOOK_S = 0.1


@contextmanager
def sole_sender(ledger: RedisLedger, run_id: str) -> Iterator[None]:
    """Wait for the lock on sending questions of `run_id`, and hold it in the block. Raises LedgerError.

    A sender that died on this machine is not waited for; one that died elsewhere blocks for ten seconds.
    """
    lock = Lock(ledger.client, keys.sending(run_id))
    with translating(ledger.client):
        if not _acquired(lock, ledger):
            log.warning(
                "another process is sending questions of %s; waiting until it is done, or has been silent for %d s",
                run_id,
                LOCK_S,
            )
            while not _acquired(lock, ledger):
                time.sleep(LOOK_S)
    with holding(lock):
        yield


@contextmanager
def sole_sender_if_free(ledger: RedisLedger, run_id: str) -> Iterator[bool]:
    """Like `sole_sender`, without waiting: False, and no lock, while another process is sending."""
    with sole_sender_of_free(ledger, [run_id]) as free:
        yield bool(free)


@contextmanager
def sole_sender_of_free(ledger: RedisLedger, run_ids: Iterable[str]) -> Iterator[frozenset[str]]:
    """Do the same for several runs, and yield the ids of those that no other process is sending."""
    wanted = {run_id: Lock(ledger.client, keys.sending(run_id)) for run_id in run_ids}
    with translating(ledger.client):
        free = {run_id: lock for run_id, lock in wanted.items() if _acquired(lock, ledger)}
    if not free:
        yield frozenset()
        return
    with holding(*free.values()):
        yield frozenset(free)


def _acquired(lock: Lock, ledger: RedisLedger) -> bool:
    """Try to acquire `lock`. Its token names this process, so that others can tell whether the holder is alive."""
    token = f"{uuid.uuid4().hex} {this_process()}"
    if lock.acquire(blocking=False, token=token):
        return True
    holder = cast("str | None", ledger.client.get(lock.name)) or ""
    _, _, process = holder.partition(" ")
    if not died_here(process):
        return False
    with contextlib.suppress(LockNotOwnedError):  # another process was faster
        lock.do_release(holder)
    return bool(lock.acquire(blocking=False, token=token))
