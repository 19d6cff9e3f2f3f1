"""A lock that allows one sender per run at a time, so that no question is sent twice."""

from __future__ import annotations

import contextlib
import logging
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar, cast

import redis
from redis.exceptions import LockNotOwnedError
from redis.lock import Lock

from contract import keys
from contract.connection import releasing, translating
from contract.fleet import LEASE_S
from contract.ledger import RedisLedger
from contract.process import died_here, this_process

__all__ = ["SoleSender", "sole_sender", "sole_sender_or_none"]

log = logging.getLogger(__name__)

T = TypeVar("T")
#: Seconds between checks while waiting for another sender.
LOOK_S = 0.1


class SoleSender:
    """The held right to send a run's questions. It expires ten seconds after it was last renewed."""

    def __init__(self, lock: Lock | None = None) -> None:
        """`lock` is already held; None where no other process can send."""
        self._lock = lock
        self._renew_at = 0.0

    def passing(self, items: Iterable[T]) -> Iterator[T]:
        """Yield `items` unchanged and renew the lock as they are consumed."""
        for item in items:
            if self._lock is not None and time.monotonic() >= self._renew_at:
                self._renew(self._lock)
            yield item

    def _renew(self, lock: Lock) -> None:
        self._renew_at = time.monotonic() + LEASE_S / 4
        # The lock may be lost after a long sleep. Others may then send the same questions, which costs a ledger lookup
        # each. Any other error will show up at the next send.
        with contextlib.suppress(redis.RedisError):
            lock.reacquire()


@contextmanager
def sole_sender(ledger: RedisLedger, run_id: str) -> Iterator[SoleSender]:
    """Wait for the lock on sending questions of `run_id`, and hold it in the block. Raises LedgerError.

    A sender that died on this machine is not waited for; one that died elsewhere blocks for ten seconds.
    """
    lock = _lock(ledger, run_id)
    with translating(ledger.place):
        if not _acquired(lock, ledger):
            log.warning(
                "another process is sending questions of %s; waiting until it has, or shows no sign of life for %d s",
                run_id,
                LEASE_S,
            )
            while not _acquired(lock, ledger):
                time.sleep(LOOK_S)
    with releasing(lock):
        yield SoleSender(lock)


@contextmanager
def sole_sender_or_none(ledger: RedisLedger, run_id: str) -> Iterator[SoleSender | None]:
    """Like `sole_sender`, without waiting: None while another process is sending."""
    lock = _lock(ledger, run_id)
    with translating(ledger.place):
        free = _acquired(lock, ledger)
    if not free:
        yield None
        return
    with releasing(lock):
        yield SoleSender(lock)


def _lock(ledger: RedisLedger, run_id: str) -> Lock:
    return Lock(ledger.client, keys.sending(run_id), timeout=LEASE_S, thread_local=False)


def _acquired(lock: Lock, ledger: RedisLedger) -> bool:
    """Try to acquire `lock`. Its token names this process, so that others can tell whether the holder is alive."""
    token = f"{uuid.uuid4().hex} {this_process()}"
    if lock.acquire(blocking=False, token=token):
        return True
    holder = cast("str | None", ledger.client.get(lock.name)) or ""
    _, _, process = holder.partition(" ")
    if not process or not died_here(process):
        return False
    with contextlib.suppress(LockNotOwnedError):  # another process was faster
        lock.do_release(holder)
    return bool(lock.acquire(blocking=False, token=token))
