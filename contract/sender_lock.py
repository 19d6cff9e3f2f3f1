"""A lock that allows one sender per run at a time, so that no question is sent twice."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from contract import keys
from contract.connection import translating
from contract.ledger import RedisLedger
from contract.locks import Lock, holding

__all__ = ["sole_sender", "sole_sender_if_free", "sole_sender_of_free"]


@contextmanager
def sole_sender(ledger: RedisLedger, run_id: str) -> Iterator[None]:
    """Wait for the lock on sending questions of `run_id`, and hold it in the block. Raises LedgerError."""
    lock = Lock(ledger.client, keys.sending(run_id))
    with translating(ledger.client):
        lock.wait(f"another process is sending questions of {run_id}")
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
        free = {run_id: lock for run_id, lock in wanted.items() if lock.taken()}
    if not free:
        yield frozenset()
        return
    with holding(*free.values()):
        yield frozenset(free)
