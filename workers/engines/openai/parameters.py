"""Which parameters of a request a model takes: learned from its server's refusals, so no model is known by name.

OpenAI's reasoning models want the limit of tokens by another name, and no `temperature` or `top_p` but their own. Other
servers refuse every parameter that they do not know: Mistral's has no `seed`. LiteLLM's proxy refuses those that it
cannot translate for a model's provider. What may be left out is in `DISPENSABLE`; a request with anything else that is
refused fails, so that no value that a run chose is dropped.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from contract.spec import Sampling
from workers.engines.openai import wire

if TYPE_CHECKING:
    from openai import APIStatusError, OpenAIError

__all__ = ["Parameters", "remedy"]

#: Codes of refusals of a parameter, or of one value of it.
UNSUPPORTED = frozenset({"unsupported_parameter", "unsupported_value", "unknown_parameter"})
#: How such refusals begin where the code is missing.
UNSUPPORTED_WORDS = ("Unsupported parameter", "Unsupported value", "Unknown parameter")
#: What LiteLLM's proxy calls such a refusal, and how it names the parameters, or one and its value: "anthropic does not
#: support parameters: ['seed'], for model=…", "O-series models don't support temperature=0".
LITELLM = "UnsupportedParamsError"
LISTED = re.compile(r"does not support parameters: \[([^\]]*)\]")
OF_A_VALUE = re.compile(r"(?:does not|doesn't|don't) support (\w+)=")
#: What pydantic, which checks requests for FastAPI, calls a field that it does not know; version 1, the second.
EXTRA = ("extra_forbidden", "value_error.extra")
#: Named in the refusal of a server that can hold a text to JSON, but does not know the protocol's way to give a schema.
#: llama-cpp-python's has its own way.
JSON_OBJECTS = "json_object"
#: Parameter → what reasoning models call it.
ALSO_CALLED = {"max_tokens": "max_completion_tokens"}
#: Parameter → the values of it that may be left out; None: all. Runs that choose no temperature have 0; 1 is
#: the protocol's own default. Without `n`, further texts are asked for one by one; without `response_format`, a grade
#: that is not the wanted JSON is asked for again, as where a server ignores it.
DISPENSABLE: Mapping[str, tuple[float, ...] | None] = {
    "temperature": (0, 1),
    "top_p": (1,),
    "seed": None,
    "n": None,
    "response_format": None,
}
#: Left out without effect on what a run chose.
WITHOUT_EFFECT = frozenset({"n", "response_format"})
#: What to do about a server that does not answer in time.
SLOW = "It may only be slow: raise openai.timeout_s, or lower openai.concurrency."
#: Parameter of a run that is refused and not left out → what to do.
REMEDIES = {
    "temperature": "Set sampling.temperature to 1, which such models take; or to 0, for which they use their own.",
    "top_p": "Set sampling.top_p to 1.",
    "reasoning_effort": "Set reasoning_effort, in sampling or of the judge, to what the model takes, or leave it out.",
    "chat_template_kwargs": "Leave chat_template_kwargs out.",
}


class Parameters:
    """What one model's server has refused so far. Thread-safe."""

    def __init__(self) -> None:
        self._renamed: set[str] = set()
        #: Whether a text can be held to a schema only as `wire.json_object` asks for it.
        self._json_objects = False
        #: Parameter and refused value; None: any value.
        self._refused: set[tuple[str, float | None]] = set()
        self._dispensable = DISPENSABLE

    def taken(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return `body` with the names that the model takes, without what it does not take and what is None."""
        taken = {
            ALSO_CALLED[name] if name in self._renamed else name: value
            for name, value in body.items()
            if value is not None and not self._is_left_out(name, value)
        }
        if self._json_objects and "response_format" in taken:
            taken["response_format"] = wire.json_object(taken["response_format"])
        return taken

    def learn(self, refusal: APIStatusError, sent: Mapping[str, Any]) -> bool:
        """Return whether the request `sent` can be made in another way, which `taken` does from now on."""
        refused = _refused(refusal)
        asked_format = sent.get("response_format")
        if "response_format" in refused and JSON_OBJECTS in str(refusal.body) and not wire.is_json_object(asked_format):
            self._json_objects = True
            return True
        if not refused or not all(self._can_change(name, sent, only) for name, only in refused.items()):
            return False
        for name, only_this_value in refused.items():
            if name in ALSO_CALLED:
                self._renamed.add(name)
            else:
                self._refused.add((name, sent[name] if only_this_value else None))
        return True

    @property
    def known(self) -> int:
        """How many things it has learned."""
        return len(self._renamed) + len(self._refused) + self._json_objects

    def settle(self) -> None:
        """From now on, leave out no further parameter of effect: so what results say was left out stays true."""
        self._dispensable = {
            name: values for name, values in DISPENSABLE.items() if name in WITHOUT_EFFECT.union(self.left_out)
        }

    @property
    def left_out(self) -> list[str]:
        """The parameters of which a value was refused and left out."""
        return sorted({name for name, _ in self._refused.copy()} - WITHOUT_EFFECT)

    @property
    def renamed(self) -> dict[str, str]:
        """Parameter → the name by which the model takes it."""
        return {name: ALSO_CALLED[name] for name in sorted(self._renamed.copy())}

    def remarks(self) -> list[str]:
        """Return in words what runs should know of the model; empty if it takes everything."""
        found = []
        if left := self.left_out:
            itself = " (a run with sampling.temperature: 1 says it itself)" if "temperature" in left else ""
            found.append(f"does not take the usual {' and '.join(left)}: it uses its own, and results say so{itself}")
        if limit := self.renamed.get("max_tokens"):
            found.append(f"counts hidden reasoning towards sampling.max_tokens ({limit}): give runs a large one")
        return found

    def _can_change(self, name: str, sent: Mapping[str, Any], only_this_value: bool) -> bool:
        if name in ALSO_CALLED:  # another value of it may be taken
            return name in sent and not only_this_value
        return name in sent and self._is_dispensable(name, sent[name])

    def _is_dispensable(self, name: str, value: object) -> bool:
        values = self._dispensable.get(name, ())
        return values is None or value in values

    def _is_left_out(self, name: str, value: Any) -> bool:
        refused = {each for of, each in self._refused.copy() if of == name}
        return self._is_dispensable(name, value) and any(each is None or each == value for each in refused)


def remedy(trouble: OpenAIError) -> str:
    """Return what to change where a request took too long, or the model does not take a parameter; else nothing."""
    from openai import APIStatusError, APITimeoutError

    if isinstance(trouble, APITimeoutError):
        return SLOW
    refused = _refused(trouble) if isinstance(trouble, APIStatusError) else {}
    return " ".join(filter(None, map(_remedy_of, refused)))


def _remedy_of(name: str) -> str:
    return REMEDIES.get(name) or (f"Leave sampling.{name} out." if name in Sampling.model_fields else "")


def _refused(refusal: APIStatusError) -> dict[str, bool]:
    """Return the parameters that are refused, with whether only this value is; none if anything else is refused too."""
    # The client passes on whatever a server calls `param`.
    if refusal.param and isinstance(refusal.param, str) and (code := _code(refusal)) in UNSUPPORTED:
        return {refusal.param: code == "unsupported_value"}
    if unknown := _unknown(refusal.body):
        return dict.fromkeys(unknown, False)
    if LITELLM in str(refusal):
        listed = LISTED.search(str(refusal))
        names = re.findall(r"\w+", listed[1]) if listed else []
        return dict.fromkeys(OF_A_VALUE.findall(str(refusal)), True) | dict.fromkeys(names, False)
    # DeepSeek names no parameter: "This response_format type is unavailable now".
    return {"response_format": False} if "response_format" in str(refusal.body) else {}


def _unknown(body: object) -> list[str]:
    """Return the parameters that pydantic does not know, if the refusal says nothing else.

    FastAPI's refusals are `{"detail": [{"type": "extra_forbidden", "loc": ["body", "seed"], …}]}`. In Mistral's, that
    is the `message`, or the list is both.
    """
    while isinstance(body, dict):
        body = body.get("detail") or body.get("message")
    errors = body if isinstance(body, list) else []
    names = [name for each in errors if (name := _unknown_name(each))]
    return names if len(names) == len(errors) else []


def _unknown_name(error: object) -> str:
    match error:
        case {"type": kind, "loc": ["body", str(name)]} if kind in EXTRA:
            return name
    return ""


def _code(refusal: APIStatusError) -> str:
    """Return the code of the refusal, or what it is in words if it has none."""
    body = refusal.body if isinstance(refusal.body, dict) else {}
    words = str(body.get("message"))
    if refusal.code is None and words.startswith(UNSUPPORTED_WORDS):
        return "unsupported_value" if words.startswith("Unsupported value") else "unsupported_parameter"
    return str(refusal.code or "")
