"""What many tests of workers need."""

from __future__ import annotations

import pytest

from contract import MemoryLedger


@pytest.fixture
def books() -> MemoryLedger:
    return MemoryLedger()
