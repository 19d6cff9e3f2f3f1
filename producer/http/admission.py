"""Which requests are let in: those with the API key, and not too large."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Awaitable, Callable
from typing import Annotated

from fastapi import Depends, HTTPException, Request
from fastapi.responses import JSONResponse
from fastapi.security import APIKeyHeader, HTTPAuthorizationCredentials, HTTPBearer
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from contract.settings import Settings

__all__ = ["BodyLimit", "key_check"]

BEARER = HTTPBearer(auto_error=False)
HEADER = APIKeyHeader(name="X-API-Key", auto_error=False)


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


def key_check(settings: Settings) -> Callable[..., Awaitable[None]]:
    """Return a dependency that requires the key, as a bearer token or in X-API-Key, except for /health."""
    expected = settings.http.api_key.get_secret_value()

    async def check(
        request: Request,
        token: Annotated[HTTPAuthorizationCredentials | None, Depends(BEARER)],
        key: Annotated[str | None, Depends(HEADER)],
    ) -> None:
        shown = token.credentials if token else key or ""
        if request.url.path == "/health" or not expected or secrets.compare_digest(_digest(shown), _digest(expected)):
            return
        raise HTTPException(401, "An API key is required.", headers={"WWW-Authenticate": "Bearer"})

    return check


def _digest(text: str) -> bytes:
    """Return bytes of constant length for `compare_digest`, whatever the text."""
    return hashlib.sha256(text.encode()).digest()
