"""What a launcher says of a Redis whose trouble has become another one."""

from __future__ import annotations

from typing import Any

import pytest
import redis

from contract.errors import LedgerError, RedisUnreachable, WritesRefused
from contract.settings import load_settings
from tests.support import wait_until
from workers.host import redis_watch
from workers.host.redis_watch import RedisWatch

FULL, REPLICA = WritesRefused("It is full.", hint="Raise maxmemory."), WritesRefused("It is a replica.", hint="No.")
WAITING = "Workers wait until it responds."


@pytest.mark.parametrize(
    ("reasons", "said"),
    [
        (
            [RedisUnreachable("No Redis answers."), RedisUnreachable("Timeout."), LedgerError("Wrong password.")],
            [f"No Redis answers. {WAITING}", "Wrong password."],
        ),
        ([FULL, FULL, REPLICA], [f"It is full. {WAITING}", f"It is a replica. {WAITING}"]),
    ],
    ids=["away, then another password", "full, then a replica"],
)
def test_of_an_outage_that_has_another_reason_now_that_is_told(
    monkeypatch: pytest.MonkeyPatch, reasons: list[LedgerError], said: list[str]
) -> None:
    """The first reason was the last that was said: none was said to answer, or to be full, though there was room."""
    told: list[str] = []
    left = list(reasons)

    def refused(*_: Any, **__: Any) -> redis.Redis:
        raise left.pop(0) if len(left) > 1 else left[0]

    monkeypatch.setattr(redis_watch, "connect", refused)
    monkeypatch.setattr("workers.rounds.ROUND_S", 0.01)
    with RedisWatch(load_settings(), told.append):
        wait_until(lambda: len(told) == 2, "both")
    assert told == said
