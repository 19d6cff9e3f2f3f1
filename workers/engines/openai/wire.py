"""OpenAI's protocol as JSON: request bodies, and reading of the answers. Pure.

Servers differ: vLLM echoes prompts in chat too; llama.cpp gives plain completions the log-probability format of chat.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Container, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeAlias

from contract.turns import Role, Turn, Turns, as_text, beginning, begun, messages, one_turn, parted
from workers.engines.base import ScoreRequest, Text, space_moved

__all__ = [
    "CONTINUED",
    "LLAMA_SAMPLING",
    "NOTHING_WRITTEN",
    "ONE_TOKEN",
    "UNREADABLE",
    "VLLM_SAMPLING",
    "VLLM_TEXTS",
    "Asked",
    "asked",
    "continuations_of",
    "could_not_be_checked",
    "echo",
    "ended_by",
    "is_json_object",
    "is_of_vllm",
    "json_object",
    "next_tokens",
    "one_more_token",
    "prompt_tokens",
    "refused_with",
    "response_format",
    "texts_of",
    "tokenize_body",
    "top",
    "with_space_moved",
]

#: Path and body of a request.
Asked: TypeAlias = tuple[str, dict[str, Any]]
#: Body fields for the likeliest next token alone, also where no text is wanted: most servers refuse to generate none.
ONE_TOKEN: Mapping[str, Any] = MappingProxyType({"max_tokens": 1, "temperature": 0})
#: vLLM takes sampling parameters missing from a request from the model's `generation_config.json`, which may penalise
#: repetitions. These are the neutral values. Other servers may not know the names.
VLLM_SAMPLING: Mapping[str, Any] = MappingProxyType({"repetition_penalty": 1.0, "top_k": -1, "min_p": 0.0})
#: As in `workers.engines.sampling_params`: a text keeps the special tokens that mark its reasoning.
VLLM_TEXTS: Mapping[str, Any] = MappingProxyType({**VLLM_SAMPLING, "skip_special_tokens": False})
#: The same for llama.cpp's servers: one of llama-cpp-python penalises repetitions unless it is told not to.
LLAMA_SAMPLING: Mapping[str, Any] = MappingProxyType({"repeat_penalty": 1.0, "top_k": 0, "min_p": 0.0})
#: What reading an answer raises that has not the protocol's form.
UNREADABLE = (AttributeError, LookupError, RecursionError, TypeError, ValueError)
#: Upper limit for a number of tokens; beyond it, exported files could not hold their sums.
MOST_TOKENS = 2**31
NO_KWARGS: Mapping[str, Any] = MappingProxyType({})
#: The turn of the model that is continued to find out what a template puts before it.
CONTINUED = "A"
#: An answer without a text, as its limit of tokens was used up before.
NOTHING_WRITTEN: dict[str, Any] = {"choices": [{"text": "", "finish_reason": "length"}]}


def asked(turns: Turns, kwargs: Mapping[str, Any] = NO_KWARGS, *, in_chat: bool) -> Asked:
    """Return a completion request for `turns`; a plain completion takes a single turn of the user.

    `kwargs` are variables of the model's chat template, in the field that vLLM, SGLang and llama.cpp's server have for
    them. Only some servers continue a turn of the model: `Asker` asks for no more than they can.
    """
    if not in_chat:
        return "/completions", {"prompt": as_text(turns)}
    body: dict[str, Any] = {"messages": messages(turns)}
    if kwargs:
        body["chat_template_kwargs"] = dict(kwargs)
    if beginning(turns):
        body |= {"add_generation_prompt": False, "continue_final_message": True}
    return "/chat/completions", body


def _with_continuation(turns: Turns, continuation: str, kwargs: Mapping[str, Any], *, in_chat: bool) -> Asked:
    """Return a request for `turns` and `continuation` behind them, which in chat is put into the model's turn."""
    before, begins = parted(turns)
    return asked((*before, Turn(Role.ASSISTANT, begins + continuation)), kwargs, in_chat=in_chat)


def echo(turns: Turns, continuation: str, kwargs: Mapping[str, Any] = NO_KWARGS, *, in_chat: bool) -> Asked:
    """Return a request for the log-probabilities of `turns` and `continuation` themselves.

    For plain completions this is OpenAI's own `echo`; for chat completions only vLLM supports it.
    """
    path, body = _with_continuation(turns, continuation, kwargs, in_chat=in_chat)
    return path, {**body, **ONE_TOKEN, **({"prompt_logprobs": 0} if in_chat else {"echo": True, "logprobs": 0})}


def one_more_token(kwargs: Mapping[str, Any] = NO_KWARGS) -> list[Asked]:
    """Return two requests in chat, of which the second prompt should be one token longer.

    It is, if the template puts no more before a turn that is continued than before a new one: some insert a thought.
    """
    turns = one_turn("One, two,")
    path, body = asked(turns, kwargs, in_chat=True)
    return [(path, {**body, **ONE_TOKEN}), echo(turns, CONTINUED, kwargs, in_chat=True)]


def tokenize_body(turns: Turns, continuation: str, kwargs: Mapping[str, Any], *, in_chat: bool) -> dict[str, Any]:
    """Return the body of vLLM's `/tokenize` request for `turns` followed by `continuation`."""
    if in_chat and not continuation:
        _, body = asked(turns, kwargs, in_chat=True)
        return {"add_generation_prompt": True, **body}
    _, body = _with_continuation(turns, continuation, kwargs, in_chat=in_chat)
    return body


def top(wanted: int, *, in_chat: bool) -> dict[str, Any]:
    """Return body fields that request the `wanted` likeliest next tokens."""
    if not wanted:
        return {}
    return {"logprobs": True, "top_logprobs": wanted} if in_chat else {"logprobs": wanted}


def with_space_moved(request: ScoreRequest, *, in_chat: bool) -> ScoreRequest:
    """Return the request with its `space_moved`; not in chat, where the template ends the prompt."""
    if in_chat:
        return request
    prompt, continuations = space_moved(as_text(request.turns), request.continuations)
    return request._replace(turns=one_turn(prompt), continuations=continuations)


def continuations_of(request: ScoreRequest, *, in_chat: bool) -> list[str]:
    """Return the continuations as they follow the prompt: in chat, where they begin a turn, without leading space."""
    begin_turn = in_chat and not beginning(request.turns)
    return [begun(each) if begin_turn else each for each in request.continuations]


def response_format(json_schema: str) -> dict[str, Any] | None:
    """Return the body field that holds a text to `json_schema`; None without one."""
    if not json_schema:
        return None
    schema = {"name": "answer", "schema": json.loads(json_schema), "strict": True}
    return {"type": "json_schema", "json_schema": schema}


def json_object(response_format: Mapping[str, Any]) -> dict[str, Any]:
    """Return `response_format` as llama.cpp's servers take it, too: JSON by a schema."""
    return {"type": "json_object", "schema": response_format["json_schema"]["schema"]}


def is_json_object(response_format: Mapping[str, Any] | None) -> bool:
    return response_format is not None and response_format["type"] == "json_object"


def texts_of(answer: dict[str, Any], stop: Sequence[str] = ()) -> list[Text]:
    """Return the generated texts, each up to the first of `stop`, which `transformers serve` leaves at its end.

    The server reports only their total token count, which is split evenly.
    """
    choices = answer["choices"]
    each, rest = divmod(_written_tokens(answer.get("usage") or {}), len(choices))
    found = []
    for i, choice in enumerate(choices):
        whole = _text_of(choice)
        text = min((whole.partition(end)[0] for end in stop), key=len, default=whole)
        cut_off = choice.get("finish_reason") == "length" and text == whole
        found.append(Text(text, each if i else each + rest, truncated=cut_off))
    return found


def _text_of(choice: dict[str, Any]) -> str:
    """Return the text. Some servers leave it out if all its tokens went into a reasoning that they do not show.

    Half a surrogate pair, which no UTF-8 can hold, becomes U+FFFD.
    """
    text = choice["message"].get("content") if "message" in choice else choice["text"]
    if isinstance(text, list):  # Mistral's reasoning models answer in parts, of which those of type `thinking` are none
        text = "".join(part["text"] for part in text if part["type"] == "text")
    if not isinstance(text, str | None):
        raise TypeError(f"a text is expected, found {text!r:.80}")
    return (text or "").encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def ended_by(answer: dict[str, Any], reasons: Container[str]) -> str:
    """Return in the server's words how a text ended for one of `reasons`; empty if none did."""
    for choice in answer["choices"]:
        if (reason := choice.get("finish_reason")) in reasons:
            more = choice.get("error")
            return f"finish_reason: {reason}, {more}"[:200] if more else f"finish_reason: {reason}"
    return ""


def refused_with(content: bytes) -> int:
    """Return the HTTP status that the error in a successful answer names as its code; 0 if there is no such error.

    Codes 401 and 403 do not count: our key was accepted, and what was refused is a key behind this server, or a text.
    """
    if b'"error"' not in content:  # spares nearly all answers from being parsed twice
        return 0
    try:
        answer = json.loads(content)
    except (RecursionError, ValueError):
        return 0
    error = answer.get("error") if isinstance(answer, dict) and not answer.get("choices") else None
    code = str(error.get("code")) if isinstance(error, dict) else ""
    return int(code) if re.fullmatch("[45][0-9]{2}", code) and code not in {"401", "403"} else 0


def could_not_be_checked(content: bytes) -> bool:
    """Whether a server error says that the request does not have the form that is expected.

    llama-cpp-python's server calls what pydantic finds in a request an internal error.
    """
    try:
        said = json.loads(content)["error"]["message"]
    except UNREADABLE:
        return False
    return isinstance(said, str) and re.match(r"\d+ validation errors?:", said) is not None


def is_of_vllm(answer: Mapping[str, Any]) -> bool:
    """Whether an answer has what vLLM alone puts there: log-probabilities of a chat's prompt, or its own name."""
    return bool(answer.get("prompt_logprobs")) or str(answer.get("system_fingerprint")).startswith("vllm")


def next_tokens(choice: dict[str, Any]) -> dict[str, float]:
    """Return the likeliest next tokens, as text. Chat completions, and llama.cpp's plain ones, use `content`."""
    found = choice.get("logprobs") or {}
    if found.get("content"):
        rows = found["content"][0].get("top_logprobs") or ()
        # Servers that decode each token alone give several the same text: which of them is meant cannot be told.
        times = Counter(row["token"] for row in rows)
        listed = {row["token"]: row.get("logprob") for row in rows if times[row["token"]] == 1}
    else:
        listed = (found.get("top_logprobs") or [{}])[0] or {}
    return {token: logprob for token, logprob in listed.items() if isinstance(logprob, int | float)}


def _written_tokens(usage: dict[str, Any]) -> int:
    """Return the number of tokens that the model wrote, hidden reasoning included.

    OpenAI counts the reasoning among `completion_tokens`; xAI and Google count it in the total only.
    """
    written, prompt, total = (_count(usage, f"{name}_tokens") for name in ("completion", "prompt", "total"))
    return max(written, total - prompt) if prompt else written


def prompt_tokens(usage: dict[str, Any]) -> tuple[int, int]:
    """Return the number of prompt tokens, and how many of them came from the server's cache."""
    return _count(usage, "prompt_tokens"), _count(usage.get("prompt_tokens_details") or {}, "cached_tokens")


def _count(usage: dict[str, Any], name: str) -> int:
    """Return the number of tokens of that name; 0 if the server does not tell. Raises ValueError if it is no number."""
    found = usage.get(name) or 0
    if not isinstance(found, int | float) or not 0 <= found <= MOST_TOKENS or found != int(found):
        raise ValueError(f"{name}: a number of tokens is expected, found {found!r:.80}")
    return int(found)
