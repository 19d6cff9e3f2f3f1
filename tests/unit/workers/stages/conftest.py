"""What most of these tests need."""

from __future__ import annotations

import pytest

from tests.unit.workers.stages.support import CountingEngine


@pytest.fixture
def engine() -> CountingEngine:
    return CountingEngine()
