"""How long requests take and how they end, for Prometheus: also those that no path of the application sees."""

from __future__ import annotations

import time
from collections.abc import Container

from prometheus_client import Histogram
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from producer.http.disconnects import GONE

__all__ = ["Timed"]


class Timed:
    """ASGI middleware that observes the duration of every request by its path, if it is one of `paths`, and status."""

    def __init__(self, app: ASGIApp, requests: Histogram, paths: Container[str]) -> None:
        self._app = app
        self._requests = requests
        self._paths = paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Observe the request, whatever the application answers or raises."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, status = time.monotonic(), 0

        async def received() -> Message:
            nonlocal status
            message = await receive()
            if message["type"] == "http.disconnect":
                status = status or GONE
            return message

        async def sent(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = status or message["status"]
            await send(message)

        try:
            await self._app(scope, received, sent)
        finally:
            path = scope["path"] if scope["path"] in self._paths else "none"
            # Without a status, an unexpected error is passing through here, which the server answers with 500.
            self._requests.labels(path, status or 500).observe(time.monotonic() - began)
