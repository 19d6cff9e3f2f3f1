"""Locks in Redis, which end by themselves if whoever holds them is killed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress

import redis
from redis.exceptions import LockError
from redis.lock import Lock as RedisLock

__all__ = ["LOCK_S", "Lock", "claim", "holding"]

#: A lock that nobody renews or releases expires after this long.
LOCK_S = 10
#: Seconds between attempts at a lock that is waited for.
LOOK_S = 0.02


class Lock(RedisLock):
    """redis-py's lock, also acquired if an earlier call acquired it whose answer was lost: the client repeats calls."""

    def __init__(self, client: redis.Redis, name: str) -> None:
        # Not local to a thread: another one renews it.
        super().__init__(client, name, timeout=LOCK_S, sleep=LOOK_S, thread_local=False)

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
