"""Kinds of servers that differ from the protocol, each in the way in which a real one was seen to do it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest

from contract.spec import Chat, ChatTemplate, Sampling
from contract.turns import one_turn
from tests.unit.workers.engines.openai.server import LETTERS, WRITE, Script, checked, error_of, serving, started
from workers.engines.base import ScoreRequest

pytestmark = pytest.mark.usefixtures("short_pauses")

JSON = '{"type": "object", "properties": {"correct": {"type": "boolean"}}}'
HELD = replace(WRITE, json_schema=JSON)
#: Names that only vLLM knows.
OF_VLLM = {"repetition_penalty": 1.0, "top_k": -1, "min_p": 0.0, "skip_special_tokens": False}
#: What llama.cpp's servers are told where a run chose nothing.
OF_LLAMA = {"repeat_penalty": 1.0, "top_k": 0, "min_p": 0.0}


@dataclass
class LlamaCppPython(Script):
    """As llama-cpp-python 0.3.36's: what pydantic finds in a request is an internal error."""

    echo: bool = False
    #: Whether its model would end the text behind every prompt, where it lists no next tokens.
    ends: bool = False
    #: Whether `min_tokens` keeps it from that.
    minimum: bool = True

    def _refused(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]] | None:
        if not isinstance(body.get("repeat_penalty", 1.0), int | float):
            return self._malformed("repeat_penalty", "Input should be a valid number")
        if body.get("response_format", {}).get("type") == "json_schema":
            return self._malformed("response_format", "Input should be 'text' or 'json_object'")
        return super()._refused(body)

    @staticmethod
    def _malformed(name: str, message: str) -> tuple[int, dict[str, Any]]:
        found = f"1 validation error:\n  {{'type': 'literal_error', 'loc': ('body', '{name}'), 'msg': \"{message}\"}}"
        return 500, {"error": {"message": found, "type": "internal_server_error", "param": None, "code": None}}

    def answer(self, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        status, answer = super().answer(path, body)
        if self.ends and status == 200 and "three," not in str(body) and not (self.minimum and body.get("min_tokens")):
            answer["choices"][0] |= {"logprobs": {"content": [], "top_logprobs": []}}
        return status, answer


@dataclass
class LlamaServer(LlamaCppPython):
    """As llama.cpp's own: what it finds wrong with a request is the request's fault."""

    def _refused(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]] | None:
        refused = super()._refused({**body, "response_format": {}})
        return (400, {"error": {"message": "Field 'repeat_penalty': type must be number"}}) if refused else None


@pytest.mark.parametrize("kind", [LlamaCppPython, LlamaServer])
def test_llama_cpp_writes_as_the_run_says_and_not_as_the_server_prefers(kind: type[Script]) -> None:
    """The server of llama-cpp-python otherwise penalises repetitions, also in greedy texts."""
    script = kind()
    with started(script) as engine:
        engine.generate([WRITE])
        assert engine.describe()["offers"]["llama_sampling"]
    assert {name: script.asked[-1].get(name) for name in OF_LLAMA} == OF_LLAMA


def test_what_a_run_chose_reaches_llama_cpp_by_its_own_names() -> None:
    """It ignores `repetition_penalty`, so the texts were others than the run says."""
    script = LlamaServer()
    with started(script) as engine:
        engine.generate([replace(WRITE, sampling=Sampling(top_k=20, min_p=0.1, repetition_penalty=1.2))])
    asked = script.asked[-1]
    assert {name: asked.get(name) for name in OF_LLAMA} == {"repeat_penalty": 1.2, "top_k": 20, "min_p": 0.1}
    assert "repetition_penalty" not in asked


@pytest.mark.parametrize("script", [Script(echo=False), Script(echo=False, unsupported={"repeat_penalty": "unknown"})])
def test_who_ignores_or_refuses_a_name_is_not_taken_for_llama_cpp(script: Script) -> None:
    with started(script) as engine:
        engine.generate([WRITE])
        assert "llama_sampling" not in engine.describe()["offers"]
    assert script.asked[-1].keys().isdisjoint(OF_LLAMA.keys() | OF_VLLM.keys())


class Signed(Script):
    """As vLLM behind a proxy that does not pass on what echoes a chat, such as SGLang's router."""

    def answer(self, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        status, answer = super().answer(path, body)
        return status, {**answer, "system_fingerprint": "vllm-0.32.0-ec166500"}


@pytest.mark.parametrize("script", [Script(), Signed(echo=False)], ids=["it echoes chats", "it says its name"])
def test_vllm_behind_a_proxy_that_passes_no_count_of_tokens_on_writes_as_the_run_says(script: Script) -> None:
    """As behind LiteLLM's: it knows no `/tokenize`, and vLLM sampled as the model's generation_config.json says."""
    with started(script) as engine:
        engine.generate([replace(WRITE, sampling=Sampling(top_k=20))])
        engine.generate([LETTERS])
        text, look, *_ = script.asked
        assert engine.describe()["offers"]["vllm_sampling"]
    assert {name: text.get(name) for name in OF_VLLM} == {**OF_VLLM, "top_k": 20}
    assert look["repetition_penalty"] == 1.0


def test_a_proxy_that_refuses_vllms_names_is_asked_without_them() -> None:
    script = Script(unsupported={"skip_special_tokens": "unknown"})
    with started(script) as engine:
        (completion,) = engine.generate([WRITE])
        assert "vllm_sampling" not in engine.describe()["offers"]
    assert completion.error is None
    assert script.asked[-1].keys().isdisjoint(OF_VLLM)


def test_a_text_is_held_to_a_schema_as_llama_cpp_python_takes_one() -> None:
    """It refuses the protocol's way with status 500: every question of a judge failed after five attempts."""
    script = LlamaCppPython()
    with started(script) as engine:
        first, second = engine.generate([HELD, HELD])
    assert (first.error, second.error) == (None, None)
    taken = [each["response_format"] for each in script.asked if each["response_format"]["type"] != "json_schema"]
    schema = {"type": "object", "properties": {"correct": {"type": "boolean"}}}
    assert taken == [{"type": "json_object", "schema": schema}] * 2
    assert len(script.asked) <= 4, "a request that cannot be checked is not repeated as it is"


def test_a_server_that_takes_no_schema_in_that_way_either_is_asked_without() -> None:
    class Refusing(LlamaCppPython):
        def _refused(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]] | None:
            if body.get("response_format"):
                return self._malformed("response_format", "only json_object, and no schema")
            return super()._refused(body)

    script = Refusing()
    with started(script) as engine:
        (completion,) = engine.generate([HELD])
    assert completion.error is None
    assert "response_format" not in script.asked[-1]


def test_a_malformed_request_that_is_called_an_internal_error_fails_at_once_and_once() -> None:
    class Strict(LlamaCppPython):
        def _refused(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]] | None:
            return self._malformed("top_k", "too many") if body.get("top_k") else super()._refused(body)

    script = Strict()
    with started(script) as engine:
        (completion,) = engine.generate([replace(WRITE, sampling=Sampling(top_k=20))])
    assert error_of(completion).type == "UnprocessableEntityError"
    assert len(script.asked) == 2, "that one, and one to see whether everybody is refused"


@pytest.mark.parametrize("chat", [ChatTemplate.NEVER, ChatTemplate.ALWAYS])
def test_labels_are_listed_also_where_the_model_would_rather_end_the_text(chat: ChatTemplate) -> None:
    script = LlamaCppPython(most_top=26)
    asked = ScoreRequest(one_turn("Which letter?"), (" A", " B"), Chat(chat))
    with started(script) as engine:
        (expected,) = engine.generate([asked])
        script.ends = True
        (found,) = engine.generate([asked])
    assert expected.logprobs
    assert found.logprobs == expected.logprobs
    assert [each.get("min_tokens") for each in script.asked] == [None, None, 1]


@pytest.mark.parametrize("unsupported", [{}, {"min_tokens": "unknown"}])
def test_where_nothing_is_listed_the_remedy_is_no_likelier_label(unsupported: dict[str, str]) -> None:
    script = LlamaCppPython(most_top=26, ends=True, minimum=False, unsupported=unsupported)
    with started(script) as engine:
        plain, chat = engine.generate([LETTERS, LETTERS._replace(chat=Chat(ChatTemplate.ALWAYS))])
    assert "lists no next tokens behind this prompt, where the model may end its text" in error_of(plain).message
    assert error_of(plain).message.endswith("set mode: generate, or chat_template: always")
    assert error_of(chat).message.endswith("set mode: generate")


def test_a_server_that_is_too_slow_is_told_with_the_setting_that_gives_it_time() -> None:
    script = Script(slow_text="Write.")
    with started(script, timeout_s=0.2, max_retries=0) as engine:
        (completion,) = engine.generate([WRITE])
        script.released.set()
    assert error_of(completion).message.endswith("raise openai.timeout_s, or lower openai.concurrency.")


def test_check_names_the_key_where_a_server_says_neither_what_it_wants_nor_what_it_serves() -> None:
    """LiteLLM's proxy answers a wrong key with 400 and `No connected db.`, also if it is asked for its models."""
    script = Script(chat=False, plain=False, listing={"error": {"message": "No connected db.", "code": "400"}})
    with serving(script) as url:
        found = checked(url)
    assert found.level == "error"
    assert found.remedy == "Check openai.url, openai.model and the key, MCQUEUE_OPENAI__API_KEY."
