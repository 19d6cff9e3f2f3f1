"""LiteLLM's proxy in front of models whose providers do not take every parameter, as it is unless told to drop them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from contract.spec import Chat, ChatTemplate, Sampling
from contract.turns import one_turn
from contract.verdict import Failure
from tests.unit.workers.engines.openai.server import WRITE, Script, started
from workers.engines.base import GenerateRequest

pytestmark = pytest.mark.usefixtures("short_pauses")

NONE_OF_LOGPROBS = {"logprobs", "top_logprobs"}


@dataclass
class Proxied(Script):
    """Refuses parameters in the words of LiteLLM 1.108.7."""

    plain: bool = False
    echo: bool = False
    takes_no: frozenset[str] = frozenset()
    only_temperature_1: str = ""

    def _refused(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]] | None:
        if wrong := sorted(self.takes_no & body.keys()):
            return _unsupported(f"anthropic does not support parameters: {wrong}, for model=grader.")
        temperature = body.get("temperature", 1)
        if self.only_temperature_1 and temperature != 1:
            return _unsupported(self.only_temperature_1.format(temperature))
        return super()._refused(body)


def _unsupported(message: str) -> tuple[int, dict[str, Any]]:
    said = f"litellm.UnsupportedParamsError: {message} To drop these, set `litellm.drop_params=True` or for proxy:\n\n…"
    return 400, {"error": {"message": said, "type": "invalid_request_error", "param": None, "code": "400"}}


@pytest.mark.parametrize("takes_no", [{"seed"}, {"seed", "top_p", *NONE_OF_LOGPROBS}])
def test_parameters_that_litellm_cannot_translate_are_left_out(takes_no: set[str]) -> None:
    """Every question failed."""
    script = Proxied(takes_no=frozenset(takes_no))
    with started(script) as engine:
        (completion,) = engine.generate([WRITE])
        assert engine.describe()["left_to_model"] == sorted(takes_no - NONE_OF_LOGPROBS)
    assert completion.error is None
    (asked,) = script.asked
    assert not takes_no & asked.keys()


@pytest.mark.parametrize(
    "words",
    [
        "O-series models don't support temperature={}. Only temperature=1 is supported.",
        "gpt-5 doesn't support temperature={} while reasoning is active. Only temperature=1 is supported unless "
        "reasoning_effort resolves to 'none', either set explicitly on the request or declared as the model's "
        "default_reasoning_effort.",
    ],
)
def test_a_reasoning_model_behind_litellm_is_asked_as_it_wants_to_be_asked(words: str) -> None:
    """No worker could start."""
    script = Proxied(takes_no=frozenset({"top_p", *NONE_OF_LOGPROBS}), only_temperature_1=words)
    hot = GenerateRequest(one_turn("Write."), Sampling(max_tokens=9, temperature=0.7), 5, Chat(ChatTemplate.AUTO))
    with started(script) as engine:
        (answered,) = engine.generate([WRITE])
        (refused,) = engine.generate([hot])
    assert answered.error is None
    assert type(refused.error) is Failure
    assert refused.error.message.endswith(
        "Set sampling.temperature to 1, which such models take; or to 0, for which they use their own."
    )
