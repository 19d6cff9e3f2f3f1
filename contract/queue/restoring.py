"""Requeueing of the messages that a dead worker held."""

from __future__ import annotations

from typing import Any, cast

import redis
from kombu import Connection
from kombu.exceptions import OperationalError

from contract import address, keys
from contract.connection import translating
from contract.queue.app import SOCKET_TIMEOUT_S
from contract.settings import Settings

__all__ = ["restore_held"]


def restore_held(settings: Settings, worker: str) -> int:
    """Requeue the messages that dead worker `worker` held, and return how many.

    This is kombu's own restore, with this worker's unacked keys and a visibility timeout far below zero, as the dead
    worker's clock may have been ahead. Only for a worker that is known to be dead: a live one's messages would be
    executed twice. Raises LedgerError.
    """
    url, unacked = settings.redis_url.get_secret_value(), keys.unacked_options(worker)
    with redis.Redis.from_url(url) as client, translating(client):
        held = cast(int, client.hlen(keys.unacked(worker)))
        # A worker killed during a restore leaves its lock behind, and kombu would silently give up. The lock only saves
        # work: each message is requeued in its own transaction, only once however many try.
        client.delete(unacked["unacked_mutex_key"])
        if held:
            _restore(url, {**unacked, "visibility_timeout": -(10**9), "socket_timeout": SOCKET_TIMEOUT_S})
        return held - cast(int, client.hlen(keys.unacked(worker)))


def _restore(url: str, options: dict[str, Any]) -> None:
    try:
        with Connection(url, ssl=address.tls(url), transport_options=options) as connection:
            connection.default_channel.qos.restore_visible(num=None, interval=1)
    except OperationalError as trouble:
        raise trouble.__cause__ or trouble from None
