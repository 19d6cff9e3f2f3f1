"""What a client is told when its request fails: one line about an expected error, or what is wrong with the body."""

from __future__ import annotations

import json
from typing import Any

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse

from contract.errors import DeadlineMissed, InputError, LedgerError, McqueueError, NoWorker, TooBusy, nearest
from producer.http.bodies import QuestionIn

__all__ = ["explain", "refuse"]

#: Errors told of one body, whose values may be wrong in a million places.
MOST_TOLD = 20
#: HTTP status by kind of error; for all others 500.
STATUS: dict[type[McqueueError], int] = {
    InputError: 422,
    NoWorker: 503,
    TooBusy: 429,
    DeadlineMissed: 504,
    LedgerError: 503,
}


async def explain(_: Request, trouble: Exception) -> JSONResponse:
    """Return expected errors as one line, with the status that fits their cause."""
    status = next((status for kind, status in STATUS.items() if isinstance(trouble, kind)), 500)
    return JSONResponse({"detail": str(trouble)}, status)


async def refuse(request: Request, trouble: Exception) -> Response:
    """Return the first errors of a body without its values, which JSON (NaN) or UTF-8 (surrogates) may not encode."""
    assert isinstance(trouble, RequestValidationError)
    told = trouble.errors()[:MOST_TOLD]
    wrong = [{"type": each["type"], "loc": each["loc"], "msg": _said(each, request)} for each in told]
    return Response(json.dumps({"detail": wrong}), 422, media_type="application/json")


def _said(wrong: dict[str, Any], request: Request) -> str:
    # A body of another content type, such as curl's default, is not parsed as JSON at all.
    if wrong["loc"] == ("body",) and wrong["type"] in {"missing", "model_attributes_type"}:
        return "Expected a JSON object, sent with Content-Type: application/json."
    if wrong["type"] == "string_pattern_mismatch":  # of prompts
        return "Input should have more than white space"
    if wrong["type"] == "json_invalid":
        return f"{wrong['msg']} at character {wrong['loc'][1]}: {wrong['ctx']['error']}"
    if wrong["type"] == "extra_forbidden":
        body = request.scope["route"].body_field.field_info.annotation
        takes = QuestionIn if "questions" in wrong["loc"][:-1] else body
        return f"{wrong['msg']}. {nearest(str(wrong['loc'][-1]), list(takes.model_fields))}".rstrip(". ")
    return str(wrong["msg"]).removeprefix("Value error, ")
