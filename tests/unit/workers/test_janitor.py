"""The threads that look after workers and runs: what they say of a round that failed."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import NoReturn

import pytest

from contract import Settings
from contract.errors import LedgerError, RedisUnreachable
from tests.support import PATIENCE_S, wait_until
from workers.heartbeat import Heartbeat
from workers.rounds import Rounds


@pytest.mark.parametrize(("trouble", "is_shown"), [(RedisUnreachable("away"), False), (KeyError("away"), True)])
def test_a_round_that_failed_does_not_end_its_thread_and_only_a_bug_has_a_traceback(
    trouble: Exception, is_shown: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> NoReturn:
        raise trouble

    monkeypatch.setattr("workers.rounds.ROUND_S", 0.01)
    monkeypatch.setattr("workers.retries.AGAIN_S", 0.0)
    monkeypatch.setattr("workers.heartbeat.Fleet", SimpleNamespace(connect=lambda _: None))
    heart = Heartbeat(Settings(), fail, lambda: None)
    heart.start()
    wait_until(lambda: len(caplog.records) > 1, "two rounds")
    heart.stop()
    assert "heart: round skipped" in caplog.text
    assert {bool(each.exc_info) for each in caplog.records} == {is_shown}


def test_a_trouble_that_lasts_is_logged_once_a_minute_and_another_one_at_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """While Redis was away, each worker logged a megabyte an hour."""
    away = [RedisUnreachable(f"No Redis answers ({why}).", hint="Start one.") for why in ("reset", "closed", "reset")]
    refuses = RedisUnreachable("It is loading.", hint="Wait.")
    damaged = [LedgerError(f"Redis refuses: {why}.") for why in ("WRONGTYPE", "WRONGTYPE", "ERR syntax error")]
    troubles: list[Exception | None] = [*away, refuses, None, refuses, refuses, *damaged]
    ended = threading.Event()

    class Failing(Rounds):
        def round(self) -> None:
            if not troubles:
                ended.set()
                return
            if trouble := troubles.pop(0):
                raise trouble

    monkeypatch.setattr("workers.rounds.ROUND_S", 0.01)
    rounds = Failing("test")
    rounds.start()
    assert ended.wait(PATIENCE_S)
    rounds.stop()
    assert [each.message for each in caplog.records] == [
        f"test: round skipped: {type(each).__name__}: {each}" for each in (away[0], refuses, refuses, *damaged[1:])
    ]
