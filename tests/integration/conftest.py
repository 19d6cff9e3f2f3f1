"""What the integration tests share in addition to the server: the producer's Celery app, a client, and a janitor."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis
from celery import Celery
from kombu import pools

from contract import RedisLedger, Settings
from contract.queue import make_celery
from tests.integration.runs import QUEUE
from workers.janitor import Janitor


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


@pytest.fixture
def janitor(settings: Settings, app: Celery) -> Janitor:
    """The janitor of a worker of the queue."""
    return Janitor(settings, app, "w0@test", QUEUE)
