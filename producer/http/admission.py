"""Which requests are let in: those with the API key, and not too large."""

from __future__ import annotations

import hashlib
import secrets

from fastapi.responses import JSONResponse
from fastapi.security import APIKeyHeader, HTTPBearer
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["KEY_SCHEMES", "BodyLimit", "KeyCheck"]

#: How the key is sent, as /openapi.json tells it. They refuse no request themselves: `KeyCheck` has done so before.
KEY_SCHEMES = (HTTPBearer(auto_error=False), APIKeyHeader(name="X-API-Key", auto_error=False))
#: Paths that need no key.
OPEN = frozenset(["/health", "/docs", "/docs/oauth2-redirect", "/redoc", "/openapi.json"])


class BodyLimit:
    """ASGI middleware that rejects requests with larger bodies with 413, and stops reading them."""

    def __init__(self, app: ASGIApp, max_bytes: int) -> None:
        self._app = app
        self._max_bytes = max_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Count the received bytes, regardless of headers; above the limit, the application sees a disconnect."""
        received_bytes = 0

        async def counted() -> Message:
            nonlocal received_bytes
            message = await receive()
            received_bytes += len(message.get("body", b""))
            return {"type": "http.disconnect"} if received_bytes > self._max_bytes else message

        async def answered(message: Message) -> None:
            if received_bytes <= self._max_bytes:
                await send(message)

        await self._app(scope, counted, answered)
        if received_bytes > self._max_bytes:
            detail = f"More than {self._max_bytes} bytes in one request (http.max_body_bytes)."
            await JSONResponse({"detail": detail}, 413)(scope, receive, send)


class KeyCheck:
    """ASGI middleware that rejects requests without the key with 401, before anything of their bodies is read."""

    def __init__(self, app: ASGIApp, key: str) -> None:
        self._app = app
        self._key = key

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the request in if it shows the key, or needs none."""
        shown = _shown(Headers(scope=scope)) if scope["type"] == "http" else ""
        if scope["type"] != "http" or self._lets_in(scope["path"], shown):
            await self._app(scope, receive, send)
            return
        detail = "The API key is wrong." if shown else "An API key is required, as bearer token or in X-API-Key."
        await JSONResponse({"detail": detail}, 401, {"WWW-Authenticate": "Bearer"})(scope, receive, send)

    def _lets_in(self, path: str, shown: str) -> bool:
        return not self._key or path in OPEN or secrets.compare_digest(_digest(shown), _digest(self._key))


def _shown(headers: Headers) -> str:
    """Return the bearer token, or else X-API-Key."""
    scheme, _, token = headers.get("Authorization", "").partition(" ")
    return token if token and scheme.lower() == "bearer" else headers.get("X-API-Key", "")


def _digest(text: str) -> bytes:
    """Return bytes of constant length for `compare_digest`, whatever the text."""
    return hashlib.sha256(text.encode()).digest()
