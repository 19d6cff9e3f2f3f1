"""Every order of events, on the ledger in memory: see tests/interleavings.py."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from contract import MemoryLedger
from tests.interleavings import Interleavings, make_quick


class InMemory(Interleavings):
    make_ledger = MemoryLedger


def test_every_question_ends_in_one_verdict_whatever_happens_in_whatever_order(monkeypatch: pytest.MonkeyPatch) -> None:
    make_quick(monkeypatch)
    run_state_machine_as_test(InMemory, settings=settings(max_examples=300, stateful_step_count=50))
