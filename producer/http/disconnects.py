"""Cancels requests whose clients disconnect, so that no worker starts on them any more."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from fastapi import HTTPException, Request

__all__ = ["GONE", "while_connected"]

#: nginx's status for a request closed by the client. Only the metrics see it.
GONE = 499

Answer = TypeVar("Answer")


async def while_connected(request: Request, work: Coroutine[Any, Any, Answer]) -> Answer:
    """Return the result of `work`. If the client of `request` disconnects, cancel `work` and raise HTTPException.

    The body of the request must have been read. `work` runs as a separate task, so that its clean-up is not interrupted
    when the request is cancelled.
    """
    working = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(_disconnected(request))
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        raise HTTPException(GONE, "The client has disconnected.")
    finally:
        leaving.cancel()
        working.cancel()
        await asyncio.wait({working})


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
