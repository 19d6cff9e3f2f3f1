"""Flower customized for question batches: run, size and result in the task list, and queues by priority.

By default, Flower's task list shows neither arguments nor results, and its broker page shows the sum of a queue's
priority lists. Changing the latter overrides a method of Flower 2.2.0, so Flower is pinned to that version.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

from contract.chunks import chunks
from contract.keys import PRIORITY_STEPS
from contract.queue import by_priority

__all__ = ["dress_flower"]

#: Columns of the task list, unless set by --tasks_columns or FLOWER_TASKS_COLUMNS.
COLUMNS = "state,args,result,worker,received,runtime,uuid"


def dress_flower() -> None:
    """Apply the customization if this process is Flower, before it reads its options."""
    if "flower.command" not in sys.modules:  # Celery's command line imports it before our app
        return
    from tornado.options import options

    options.tasks_columns = COLUMNS
    _split_queues()


def _split_queues() -> None:
    from flower.utils.broker import RedisBase

    summed = RedisBase.queues

    async def queues(self: Any, names: Iterable[str]) -> list[dict[str, Any]]:
        wanted = sorted(names)
        async with self.redis.pipeline() as pipeline:
            for name in wanted:
                for step in PRIORITY_STEPS:
                    pipeline.llen(self.broker_prefix + self._q_for_pri(name, step))
            lengths = chunks(await pipeline.execute(), len(PRIORITY_STEPS))
        rows = await summed(self, wanted)
        return [line for row, of_queue in zip(rows, lengths, strict=True) for line in (row, *_lines(row, of_queue))]

    RedisBase.queues = queues


def _lines(row: dict[str, Any], lengths: Iterable[int]) -> list[dict[str, Any]]:
    waiting = by_priority(lengths).items()
    return [{"name": f"{row['name']} · {each.name.lower()}", "messages": number} for each, number in waiting]
