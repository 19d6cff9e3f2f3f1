"""Locks in Redis, which end by themselves if whoever holds them is killed."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import redis
from redis.exceptions import LockError
from redis.lock import Lock as RedisLock

__all__ = ["LOCK_S", "Lock", "claim", "releasing", "renewing"]

#: A lock that nobody renews or releases expires after this long.
LOCK_S = 10


class Lock(RedisLock):
    """redis-py's lock, also acquired if an earlier call acquired it whose answer was lost: the client repeats calls."""

    def do_acquire(self, token: str) -> bool:
        """Return whether the lock has this token now, which nobody else uses."""
        if super().do_acquire(token):
            return True
        holder = self.redis.get(self.name)
        return holder is not None and self.redis.get_encoder().encode(holder) == token


@contextmanager
def releasing(lock: Lock) -> Iterator[None]:
    """Release the held `lock` at the end of the block; if that fails, it expires by itself."""
    try:
        yield
    finally:
        with suppress(LockError, redis.RedisError):
            lock.release()


@contextmanager
def renewing(lock: Lock) -> Iterator[None]:
    """Renew the held `lock`, made with `thread_local=False`, before it expires, for as long as the block runs.

    It may be lost all the same, e.g. while the machine sleeps: the block must bear that another holds it, too.
    """
    interval_s = (lock.timeout or LOCK_S) / 4
    ended = threading.Event()

    def renew() -> None:
        while not ended.wait(interval_s):
            with suppress(redis.RedisError):  # whatever it is, the block's own next call meets it
                lock.reacquire()

    thread = threading.Thread(target=renew, name="lock", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def claim(client: redis.Redis, chore: str) -> bool:
    """Return whether this caller got the lock `chore`, which nobody releases: for `LOCK_S` seconds no other gets it."""
    return bool(Lock(client, chore, timeout=LOCK_S).acquire(blocking=False))
