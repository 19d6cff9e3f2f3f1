"""One sender at a time for each run, so that what one is about to send, no other sends as well."""

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
#: Seconds between two looks of one who waits for another sender.
LOOK_S = 0.1


class SoleSender:
    """The right to send a run's questions. It runs out by itself ten seconds after its holder's last sign of life."""

    def __init__(self, lock: Lock | None = None) -> None:
        """`lock` is held; None where nobody else could send."""
        self._lock = lock
        self._renew_at = 0.0

    def passing(self, items: Iterable[T]) -> Iterator[T]:
        """`items` as they are; whoever takes them is alive, and keeps the right."""
        for item in items:
            if self._lock is not None and time.monotonic() >= self._renew_at:
                self._renew(self._lock)
            yield item

    def _renew(self, lock: Lock) -> None:
        self._renew_at = time.monotonic() + LEASE_S / 4
        # Lost after a long sleep: others may send the same by now, which costs a look at the ledger each.
        # What else keeps it from being renewed, the next thing that is sent will tell.
        with contextlib.suppress(redis.RedisError):
            lock.reacquire()


@contextmanager
def sole_sender(ledger: RedisLedger, run_id: str) -> Iterator[SoleSender]:
    """Wait until nobody else is sending questions of `run_id`, and be the one who does. Raises LedgerError.

    A sender that died on this machine is not waited for; one that died elsewhere is for ten seconds.
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
    """The same without waiting: None while somebody else is sending."""
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
    """Whether `lock` is ours now. Its token names this process, so that others can tell whether its holder lives."""
    token = f"{uuid.uuid4().hex} {this_process()}"
    if lock.acquire(blocking=False, token=token):
        return True
    holder = cast("str | None", ledger.client.get(lock.name)) or ""
    _, _, process = holder.partition(" ")
    if not process or not died_here(process):
        return False
    with contextlib.suppress(LockNotOwnedError):  # somebody else was faster
        lock.do_release(holder)
    return bool(lock.acquire(blocking=False, token=token))
