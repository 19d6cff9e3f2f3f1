"""How a run's questions are asked, for people."""

from __future__ import annotations

import json
from collections.abc import Mapping

from pydantic import JsonValue

from contract.mode import Normalization
from contract.spec import ChatTemplate, RunSpec, Sampling
from contract.wording import number

__all__ = ["how_asked"]


def how_asked(spec: RunSpec, *, brief: bool = False) -> str:
    """Describe in one line how questions are asked, so that examples or passages are never included unnoticed.

    `brief` in a table that names the model beside it: without the prompt's version, and a chat template only if there
    is one.
    """
    shots, prompt = spec.few_shot, spec.prompt
    templated = spec.chat_template is not ChatTemplate.NEVER or bool(spec.chat_template_kwargs)
    described = (
        (True, spec.mode),
        (spec.normalization is not Normalization.NONE, f"normalization {spec.normalization}"),
        (not brief, f"model {spec.model}"),
        (spec.adapter, f"adapter {spec.adapter}"),
        (True, f"prompt {prompt.name}" if brief else f"prompt {prompt.name}, version {prompt.version}"),
        (templated or not brief, f"chat template {spec.chat_template}{_assigned(spec.chat_template_kwargs)}"),
        (spec.answer_prefix, f"answers begin with {json.dumps(spec.answer_prefix, ensure_ascii=False)}"),
        (spec.sampling, _written(spec.sampling) if spec.sampling else ""),
        (spec.description, "a description"),
        (shots, f"{number(shots.k, 'example')}, {shots.selection}" if shots else ""),
        (spec.use_context_field, "its own context"),
        (spec.rag, f"passages from {spec.rag.index}" if spec.rag else ""),
        (spec.shuffle, "choices shuffled"),
        (spec.circular, "choices in every rotation"),
    )
    return " · ".join(each for there, each in described if there)


def _written(sampling: Sampling) -> str:
    """Return what the model writes for each question.

    >>> _written(Sampling(samples=5, max_tokens=64, temperature=0.7, top_p=0.9))
    '5 texts of up to 64 tokens, temperature 0.7, top_p 0.9'
    """
    length = f"of up to {number(sampling.max_tokens, 'token')}"
    texts = f"a text {length}" if sampling.samples == 1 else f"{sampling.samples} texts {length}"
    others = sampling.model_dump(exclude={"samples", "max_tokens", "temperature"}, exclude_defaults=True)
    told = (f"{name} {value}" for name, value in others.items())
    return ", ".join([texts, f"temperature {sampling.temperature:g}", *told])


def _assigned(kwargs: Mapping[str, JsonValue]) -> str:
    """Return the variables of a chat template for reading.

    >>> _assigned({"enable_thinking": False, "effort": "low"})
    ' (enable_thinking false, effort "low")'
    """
    return f" ({', '.join(f'{name} {json.dumps(value)}' for name, value in kwargs.items())})" if kwargs else ""
