"""What the integration tests share in addition to the server: the producer's Celery app, and a client."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis
from celery import Celery
from kombu import pools

from contract import RedisLedger, Settings
from contract.queue import make_celery


@pytest.fixture
def client(redis_ledger: RedisLedger) -> redis.Redis:
    """The test's own look into Redis."""
    return redis_ledger.client


@pytest.fixture
def app(settings: Settings) -> Iterator[Celery]:
    """The producer's Celery app."""
    made = make_celery(settings)
    yield made
    made.close()
    pools.reset()
