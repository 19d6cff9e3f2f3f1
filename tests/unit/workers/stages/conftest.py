"""What most of these tests need."""

from __future__ import annotations

import pytest

from tests.unit.workers.stages.searching import Echo, Outbox
from tests.unit.workers.stages.support import CountingEngine


@pytest.fixture
def engine() -> CountingEngine:
    return CountingEngine()


@pytest.fixture
def echo() -> Echo:
    return Echo()


@pytest.fixture
def outbox() -> Outbox:
    return Outbox()
