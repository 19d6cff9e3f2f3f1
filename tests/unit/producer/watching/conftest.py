"""The run that is watched."""

from __future__ import annotations

from pathlib import Path

import pytest

from contract.ledger import MemoryLedger, Run
from contract.settings import Settings
from producer.broker import MemoryBroker
from producer.intake.selection import Selection
from producer.readers import Source
from producer.runs.planning import plan
from producer.runs.runconfig import RunConfig
from producer.runs.submit import submit


@pytest.fixture
def run(five: Path, ledger: MemoryLedger, broker: MemoryBroker) -> Run:
    ready = plan(Source(five, five.name), RunConfig(), Settings(), Selection())
    return submit(ready, ledger, broker).run
