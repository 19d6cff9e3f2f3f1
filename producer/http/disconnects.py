"""Callers who leave before they have their answer: nobody waits for it then, and no worker begins it any more."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from fastapi import HTTPException, Request

__all__ = ["while_connected"]

#: nginx's: the client closed the request. Nobody reads it but the metrics.
GONE = 499

Answer = TypeVar("Answer")


async def while_connected(request: Request, work: Coroutine[Any, Any, Answer]) -> Answer:
    """What `work` comes to. Once the caller of `request` is gone, `work` is cancelled, and HTTPException raised.

    The body of the request must have been read. `work` is a task of its own: what it does at its end is not cut short
    by whatever ends the request.
    """
    working = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(_left(request))
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
    finally:
        leaving.cancel()
        working.cancel()
    await asyncio.wait({working})
    raise HTTPException(GONE, "The caller is gone.")


async def _left(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
