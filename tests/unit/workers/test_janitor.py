"""The threads that look after workers and runs: what they say of a round that failed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import NoReturn

import pytest

from contract import Settings
from contract.errors import RedisUnreachable
from tests.support import wait_until
from workers.heartbeat import Heartbeat


@pytest.mark.parametrize(("trouble", "is_shown"), [(RedisUnreachable("away"), False), (KeyError("away"), True)])
def test_a_round_that_failed_does_not_end_its_thread_and_only_a_bug_has_a_traceback(
    trouble: Exception, is_shown: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> NoReturn:
        raise trouble

    monkeypatch.setattr("workers.rounds.ROUND_S", 0.01)
    monkeypatch.setattr("workers.heartbeat.Fleet", SimpleNamespace(connect=lambda _: None))
    heart = Heartbeat(Settings(), fail, lambda: None)
    heart.start()
    wait_until(lambda: len(caplog.records) > 1, "two rounds")
    heart.stop()
    assert "heart: round skipped" in caplog.text
    assert {bool(each.exc_info) for each in caplog.records} == {is_shown}
