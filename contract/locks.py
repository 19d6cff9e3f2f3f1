"""Locks in Redis, which end by themselves if whoever holds them is killed."""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import cast

import redis
from redis.exceptions import LockError, LockNotOwnedError
from redis.lock import Lock as RedisLock

from contract.process import died_here, this_process

__all__ = ["LOCK_S", "Lock", "claim", "holding"]

log = logging.getLogger(__name__)

#: A lock that nobody renews or releases expires after this long.
LOCK_S = 10
#: Seconds between attempts at a lock that is waited for.
LOOK_S = 0.05


class Lock(RedisLock):
    """redis-py's lock, also acquired if an earlier call acquired it whose answer was lost: the client repeats calls.

    Who died on this machine with a lock is not waited for; who died elsewhere with it blocks for ten seconds.
    """

    def __init__(self, client: redis.Redis, name: str) -> None:
        # Not local to a thread: another one renews it.
        super().__init__(client, name, timeout=LOCK_S, thread_local=False)

    def taken(self) -> bool:
        """Return whether the lock is acquired, without waiting. Its token tells others whether this process lives."""
        token = f"{uuid.uuid4().hex} {this_process()}"
        if self.acquire(blocking=False, token=token):
            return True
        holder = cast("str | None", self.redis.get(self.name)) or ""
        _, _, process = holder.partition(" ")
        if not died_here(process):
            return False
        with suppress(LockNotOwnedError):  # another process was faster
            self.do_release(holder)
        return bool(self.acquire(blocking=False, token=token))

    def wait(self, why: str, *, untold_s: float = 0.0) -> None:
        """Wait until the lock is acquired. After so many seconds, log `why` another process has it."""
        told_at = time.monotonic() + untold_s
        while not self.taken():
            if time.monotonic() >= told_at:
                log.warning("%s; waiting until it is done, or has been silent for %d s", why, LOCK_S)
                told_at = float("inf")
            time.sleep(LOOK_S)

    def do_acquire(self, token: str) -> bool:
        """Return whether the lock has this token now, which nobody else uses."""
        if super().do_acquire(token):
            return True
        holder = self.redis.get(self.name)
        return holder is not None and self.redis.get_encoder().encode(holder) == token


@contextmanager
def holding(*locks: Lock) -> Iterator[None]:
    """Renew the acquired `locks` for as long as the block runs, and release them at the end; else they expire.

    One may be lost all the same, e.g. while the machine sleeps: the block must do no harm if another holds it, too.
    """
    ended = threading.Event()

    def renew() -> None:
        while not ended.wait(LOCK_S / 4):
            _each(lock.reacquire for lock in locks)  # if Redis stays away, the block's own next call fails, too

    thread = threading.Thread(target=renew, name="lock", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        _each(lock.release for lock in locks)


def _each(steps: Iterable[Callable[[], object]]) -> None:
    """Take all steps but those for a lost lock, until Redis fails: it would be waited for in each of them."""
    with suppress(redis.RedisError):
        for step in steps:
            with suppress(LockError):
                step()


def claim(client: redis.Redis, chore: str) -> bool:
    """Return whether this caller got the lock `chore`, which nobody releases: for `LOCK_S` seconds no other gets it."""
    return bool(Lock(client, chore).acquire(blocking=False))
