"""What many tests of workers need."""

from __future__ import annotations

import pytest

from contract import MemoryLedger
from workers.stages.pauses import Pauses


@pytest.fixture
def books() -> MemoryLedger:
    return MemoryLedger()


@pytest.fixture
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long a worker would have rested after each batch."""
    pauses: list[float] = []
    monkeypatch.setattr(Pauses, "take", lambda _, seconds: pauses.append(seconds))
    return pauses
