"""Redis for whatever is kept in it: a client, our atomic steps and locks on it, and its errors as ours."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import resources

import redis
from redis.backoff import ExponentialBackoff
from redis.commands.core import Script
from redis.exceptions import LockError
from redis.lock import Lock
from redis.retry import Retry

from contract.errors import LedgerError, LedgerFull, RedisUnreachable
from contract.settings import Settings

__all__ = ["connect", "lua", "releasing", "translating"]


def connect(settings: Settings) -> redis.Redis:
    """A Redis client that has been answered once. Raises RedisUnreachable."""
    client = redis.Redis.from_url(
        settings.redis_url.get_secret_value(),
        decode_responses=True,
        encoding_errors="replace",  # what we write is UTF-8; what somebody else put there must not end who reads
        socket_connect_timeout=5,
        socket_keepalive=True,
        health_check_interval=10,
        retry=Retry(ExponentialBackoff(cap=0.5, base=0.05), retries=3),
    )
    try:
        with translating(settings.redis_place):
            client.ping()
    except LedgerError:
        client.close()
        raise
    return client


def lua(client: redis.Redis, name: str) -> Script:
    """The atomic step in `contract/lua/<name>.lua`."""
    text = resources.files("contract").joinpath("lua", f"{name}.lua").read_text(encoding="utf-8")
    return client.register_script(text)


@contextmanager
def releasing(lock: Lock) -> Iterator[None]:
    """Give `lock`, which is held, back at the end; where that cannot be done, it runs out."""
    try:
        yield
    finally:
        with suppress(LockError, redis.RedisError):
            lock.release()


@contextmanager
def translating(place: str) -> Iterator[None]:
    """Raise redis-py's errors as ours."""
    try:
        yield
    except redis.AuthenticationError as trouble:
        raise LedgerError(
            f"Redis at {place} refuses the credentials: {trouble}.", hint="Check MCQUEUE_REDIS_URL."
        ) from None
    except (redis.ConnectionError, redis.TimeoutError, OSError) as trouble:
        hint = "Start one, or name another in MCQUEUE_REDIS_URL."
        raise RedisUnreachable(f"No Redis answers at {place} ({trouble}).", hint=hint) from None
    except redis.OutOfMemoryError as trouble:
        raise LedgerFull(f"Redis at {place} is full: {trouble}.") from None
    except redis.RedisError as trouble:
        raise LedgerError(f"Redis at {place} refuses: {trouble}.") from None
