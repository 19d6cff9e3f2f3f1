"""Whose turn it is in the queue."""

from __future__ import annotations

from collections.abc import Collection

from contract import RedisLedger, fair_share, keys
from tests.integration.runs import QUEUE, messages_in

__all__ = ["LIST", "levelled", "take", "turns"]

LIST = keys.broker_lists(QUEUE)[2]


def turns(ledger: RedisLedger, count: int | None = None) -> str:
    """Whose messages are taken next: the first letters of their runs."""
    return "".join(message.run_id[0] for message in messages_in(ledger.client, LIST)[:count])


def levelled(ledger: RedisLedger, count: int | None = None, put_off: Collection[str] = ()) -> str:
    """Whose messages are taken next once the queue has been levelled."""
    fair_share.level(ledger, QUEUE, put_off)
    return turns(ledger, count)


def take(ledger: RedisLedger, count: int) -> None:
    """Messages leave the queue as workers take them."""
    ledger.client.rpop(LIST, count)
