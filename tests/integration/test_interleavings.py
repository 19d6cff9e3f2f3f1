"""Every order of events, on the ledger in Redis: see tests/interleavings.py. Fewer of them, as each is a round trip."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from contract import Ledger, RedisLedger
from tests.interleavings import Interleavings, make_quick


def test_every_question_ends_in_one_verdict_whatever_happens_in_whatever_order(
    redis_ledger: RedisLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    def emptied() -> Ledger:
        redis_ledger.client.flushall()
        return redis_ledger

    class InRedis(Interleavings):
        make_ledger = staticmethod(emptied)

    make_quick(monkeypatch)
    run_state_machine_as_test(InRedis, settings=settings(max_examples=40, stateful_step_count=40))
