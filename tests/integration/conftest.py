"""What the integration tests share in addition to the server: the producer's Celery app."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from celery import Celery
from kombu import pools

from contract import Settings
from contract.queue import make_celery


@pytest.fixture
def app(settings: Settings) -> Iterator[Celery]:
    """The producer's Celery app."""
    made = make_celery(settings)
    yield made
    made.close()
    pools.reset()
