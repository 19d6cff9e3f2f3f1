"""A server that refuses what it does not know, as servers made with FastAPI and pydantic do, and Mistral's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from tests.unit.workers.engines.openai.server import Script

__all__ = ["FORMS", "Form", "Strict", "fastapi"]

#: The errors that pydantic found → the body of a refusal.
Form: TypeAlias = Callable[[list[dict[str, Any]]], dict[str, Any]]


def fastapi(errors: list[dict[str, Any]]) -> dict[str, Any]:
    """FastAPI's own form."""
    return {"detail": errors}


def mistral(errors: list[dict[str, Any]]) -> dict[str, Any]:
    """Mistral's, of December 2025."""
    message = {"detail": errors}
    return {"object": "error", "message": message, "type": "invalid_request_error", "param": None, "code": None}


def mistral_twice(errors: list[dict[str, Any]]) -> dict[str, Any]:
    """Mistral's, of November 2025."""
    return {"object": "Error", "detail": errors, "message": errors, "type": "invalid_request_error", "code": 3001}


FORMS: tuple[Form, ...] = (fastapi, mistral, mistral_twice)


@dataclass
class Strict(Script):
    """Says of one request everything that it does not know."""

    plain: bool = False
    most_top: int = 0
    echo: bool = False
    unknown: set[str] = field(default_factory=lambda: {"seed"})
    form: Form = fastapi
    #: What pydantic calls such an error: its second version, or its first.
    kind: str = "extra_forbidden"
    #: Where it finds more that it does not know, in every request.
    elsewhere: list[str | int] = field(default_factory=list)

    def _refused(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]] | None:
        places: list[list[str | int]] = [["body", name] for name in sorted(self.unknown & body.keys())]
        places += [self.elsewhere] if self.elsewhere else []
        said = {"type": self.kind, "msg": "Extra inputs are not permitted", "input": 0}
        return (422, self.form([{**said, "loc": place} for place in places])) if places else super()._refused(body)
