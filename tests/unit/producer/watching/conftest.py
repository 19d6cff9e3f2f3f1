"""The run that is watched, and the screen that it is watched on."""

from __future__ import annotations

from pathlib import Path

import pytest

from contract.ledger import MemoryLedger, Run
from producer.broker import MemoryBroker
from producer.runs.submit import submit
from tests.unit.producer.planning import planned
from tests.unit.producer.watching.looking import Screen


@pytest.fixture
def run(five: Path, ledger: MemoryLedger, broker: MemoryBroker) -> Run:
    return submit(planned(five), ledger, broker).run


@pytest.fixture
def screen(ledger: MemoryLedger, broker: MemoryBroker, run: Run) -> Screen:
    return Screen(ledger, broker, run)
