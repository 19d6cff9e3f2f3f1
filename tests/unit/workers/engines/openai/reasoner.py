"""A server with one of OpenAI's reasoning models, which refuses what these refuse, in the same words."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.unit.workers.engines.openai.server import Script

__all__ = ["Reasoner"]

#: What its API knows of chat completions, as far as it is asked here.
KNOWN = {"model", "messages", "n", "seed", "temperature", "top_p", "max_tokens", "max_completion_tokens", "stop"}
KNOWN |= {"logprobs", "top_logprobs", "response_format", "reasoning_effort"}
NO_PLAIN = "This is a chat model and not supported in the v1/completions endpoint. Did you mean to use v1/chat/…?"
NO_LOGPROBS = "You are not allowed to request logprobs from this model"
SPENT = (
    "Could not finish the message because max_tokens or model output limit was reached. "
    "Please try again with higher max_tokens."
)


@dataclass
class Reasoner(Script):
    """By default, like gpt-5: parameters as a whole, and the temperature but for its default, are refused."""

    plain: bool = False
    most_top: int = 0
    echo: bool = False
    #: Parameters that it refuses, whatever their value.
    takes_no: set[str] = field(default_factory=lambda: {"max_tokens", "top_p", "stop"})
    #: Parameter → the only value of it that it takes.
    takes_only: dict[str, float] = field(default_factory=lambda: {"temperature": 1})
    #: Whether its refusals have a code.
    codes: bool = True
    #: Tokens of the reasoning that it keeps to itself.
    reasons: int = 64
    #: Whether it refuses a request whose limit its reasoning has used up, rather than answer with an empty text.
    refuses_short: bool = True

    def answer(self, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        if refused := self._refused(body):
            return refused
        if path != "/v1/chat/completions":
            return 404, _error(NO_PLAIN, "model")
        if unknown := body.keys() - KNOWN:
            return 400, _error(f"Unrecognized request argument supplied: {unknown.pop()}")
        if body.get("logprobs"):
            return 403, _error(NO_LOGPROBS)
        if refused := self._untaken(body):
            return refused
        limit = body.get("max_completion_tokens", 1_000_000)
        if limit > self.reasons:
            return 200, self._written("stop", self.text, 9 + self.reasons, body.get("n", 1))
        return (400, _error(SPENT)) if self.refuses_short else (200, self._written("length", "", limit, 1))

    def _untaken(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]] | None:
        for name in sorted(self.takes_no & body.keys()):
            instead = " Use 'max_completion_tokens' instead." if name == "max_tokens" else ""
            said = f"Unsupported parameter: '{name}' is not supported with this model.{instead}"
            return 400, _error(said, name, "unsupported_parameter" if self.codes else None)
        for name, only in self.takes_only.items():
            if (value := body.get(name, only)) != only:
                said = f"'{name}' does not support {value:g} with this model. Only the default ({only:g}) value is"
                said = f"Unsupported value: {said} supported."
                return 400, _error(said, name, "unsupported_value" if self.codes else None)
        return None

    def _written(self, ending: str, text: str, tokens: int, texts: int) -> dict[str, Any]:
        choices = [{"index": i, "message": {"content": text}, "finish_reason": ending} for i in range(texts)]
        reasoning = {"reasoning_tokens": min(tokens, self.reasons) * texts}
        written = {"completion_tokens": tokens * texts, "completion_tokens_details": reasoning}
        return {"choices": choices, "usage": {"prompt_tokens": 5, "total_tokens": 5 + tokens * texts, **written}}


def _error(message: str, param: str | None = None, code: str | None = None) -> dict[str, Any]:
    return {"error": {"message": message, "type": "invalid_request_error", "param": param, "code": code}}
