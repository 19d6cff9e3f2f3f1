"""The server's end: it waits for the requests that are being answered, unless it is told a second time."""

from __future__ import annotations

import asyncio
import socket

import uvicorn
from fastapi.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

__all__ = ["Server", "Stopping"]

#: Polling interval for a second Ctrl-C, in seconds.
LOOK_EVERY_S = 0.1


class Server(uvicorn.Server):
    """Cancels all requests at a second Ctrl-C, rather than dropping them, so that their runs are purged."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop. uvicorn does not shut the application down after a second Ctrl-C, so that is done here."""
        ending = asyncio.create_task(self._end_if_forced())
        await super().shutdown(sockets)
        if self.force_exit:
            await ending
            await self.lifespan.shutdown()
        else:
            ending.cancel()

    async def _end_if_forced(self) -> None:
        """Cancel all requests at a second Ctrl-C: newer Pythons would wait for their connections even then."""
        while not self.force_exit:
            await asyncio.sleep(LOOK_EVERY_S)
        if left := set(self.server_state.tasks):
            for each in left:
                each.cancel()
            await asyncio.wait(left)


class Stopping:
    """ASGI middleware that answers 503 to a request that the server cancels, as it does only when it stops."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the request; if it is cancelled, tell its client to send it again."""
        try:
            await self._app(scope, receive, send)
        except asyncio.CancelledError:
            if scope["type"] != "http":
                raise
            detail = "The server stops, and does not wait for the answer. Send the request again."
            await JSONResponse({"detail": detail}, 503)(scope, receive, send)
