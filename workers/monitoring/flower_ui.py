"""Flower customized for question batches: run, size and result in the task list, and queues by priority.

By default, Flower's task list shows neither arguments nor results. Its broker page adds up a queue's priority lists,
and lacks the queue of a worker that came after Flower until somebody opens the worker's page. The change of that page
overrides a method of Flower 2.2.0, so Flower is pinned to that version.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from typing import Any

from contract.chunks import chunks
from contract.errors import LedgerError
from contract.fleet import Fleet
from contract.keys import PRIORITY_STEPS
from contract.queue import by_priority
from contract.settings import Settings

__all__ = ["customize_flower"]

#: Columns of the task list, unless set by --tasks_columns or FLOWER_TASKS_COLUMNS.
COLUMNS = "state,args,result,worker,received,runtime,uuid"


def customize_flower(settings: Settings) -> None:
    """Apply the customization if this process is Flower, before it reads its options."""
    if "flower.command" not in sys.modules:  # Celery's command line imports it before our app
        return
    from tornado.options import options

    options.tasks_columns = COLUMNS
    _split_queues(settings)
    _say_where_it_cannot_listen()


def _split_queues(settings: Settings) -> None:
    from flower.utils.broker import RedisBase

    original = RedisBase.queues

    async def queues(self: Any, names: Iterable[str]) -> list[dict[str, Any]]:
        served = await asyncio.get_running_loop().run_in_executor(None, partial(_served, settings))
        wanted = sorted(served.union(names))
        async with self.redis.pipeline(transaction=False) as pipeline:
            for name in wanted:
                for step in PRIORITY_STEPS:
                    pipeline.llen(self.broker_prefix + self._q_for_pri(name, step))
            lengths = chunks(await pipeline.execute(), len(PRIORITY_STEPS))
        rows = await original(self, wanted)
        return [line for row, of_queue in zip(rows, lengths, strict=True) for line in (row, *_lines(row, of_queue))]

    RedisBase.queues = queues


def _say_where_it_cannot_listen() -> None:
    from flower.app import Flower

    original = Flower.start_http_server

    def start_http_server(self: Any) -> int | None:
        try:
            return original(self)  # type: ignore[no-any-return]  # flower ships no types
        except OSError as trouble:
            where = f"{self.options.address or 'any address'}, port {self.options.port}: {trouble.strerror}"
            sys.exit(f"error: Flower cannot listen at {where}. Choose another --port or --address.")

    Flower.start_http_server = start_http_server


def _served(settings: Settings) -> set[str]:
    """Return the queues of all live workers; none while Redis does not answer."""
    with suppress(LedgerError):
        return {each.queue for each in Fleet.connect_hurried(settings).alive() if each.queue}
    return set()


def _lines(row: dict[str, Any], lengths: Iterable[int]) -> list[dict[str, Any]]:
    waiting = by_priority(lengths).items()
    return [{"name": f"{row['name']} · {each.name.lower()}", "messages": number} for each, number in waiting]
