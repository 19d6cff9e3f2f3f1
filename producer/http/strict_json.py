"""Reading bodies as strictly as question files: Python's own parser accepts NaN, and two members with one name."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import HTTPException, Request, Response
from fastapi.routing import APIRoute

from producer.readers.jsonl import STRICT
from producer.readers.record import FieldTrouble

__all__ = ["StrictRoute"]


class _StrictRequest(Request):
    async def json(self) -> Any:
        coding = self.headers.get("content-encoding", "identity")
        if coding.lower() != "identity":
            raise HTTPException(415, f"Expected a body that is not compressed, found Content-Encoding: {coding}.")
        try:
            return json.loads(await self.body(), **STRICT)
        except json.JSONDecodeError:
            raise  # FastAPI knows where
        except FieldTrouble as trouble:
            raise HTTPException(422, f"{trouble.field}: {trouble.message} {trouble.hint}") from None
        except (ValueError, RecursionError) as trouble:
            raise HTTPException(422, f"{trouble}.") from None


class StrictRoute(APIRoute):
    """A path whose bodies are strict JSON."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return FastAPI's own handler, on a request that is read strictly."""
        handle = super().get_route_handler()

        async def strictly(request: Request) -> Response:
            return await handle(_StrictRequest(request.scope, request.receive))

        return strictly
