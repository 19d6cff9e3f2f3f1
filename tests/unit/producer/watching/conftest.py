"""The run that is watched."""

from __future__ import annotations

from pathlib import Path

import pytest

from contract.ledger import MemoryLedger, Run
from producer.broker import MemoryBroker
from producer.runs.submit import submit
from tests.unit.producer.planning import planned


@pytest.fixture
def run(five: Path, ledger: MemoryLedger, broker: MemoryBroker) -> Run:
    return submit(planned(five), ledger, broker).run
