"""In which settings two runs differ."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from contract.spec import RunSpec

__all__ = ["differences"]

#: Prefix of settings whose default is in the model's chat template, and not known here.
VARIABLE = "chat_template_kwargs."


def differences(a: RunSpec, b: RunSpec) -> dict[str, tuple[Any, Any]]:
    """Return the settings that differ, each with both values; named as in a run configuration, such as `prompt.text`.

    A value is None if its run lacks a part, such as retrieval, that the other has; of that part, only what is set is
    compared. It is also None for a variable of the chat template that only the other run sets, to whatever value.
    """
    fields_a, fields_b = _settings(a), _settings(b)
    both = {name: (fields_a.get(name), fields_b.get(name)) for name in {**fields_a, **fields_b}}
    return {
        name: pair
        for name, pair in both.items()
        if pair[0] != pair[1] and (name.startswith(VARIABLE) or any(map(_says_something, pair)))
    }


def _settings(spec: RunSpec) -> dict[str, Any]:
    settings = _flat(spec.model_dump(mode="json", exclude={"questions_digest"}))  # of what is asked, not how
    settings["prompt.version"] = spec.prompt.version
    settings["rag.use_context_field"] = settings.pop("use_context_field")
    if spec.rag is not None and not spec.rag.reranker:
        del settings["rag.rerank_from"]
    return settings


def _flat(content: Mapping[str, Any], start: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in content.items():
        flat |= _flat(value, f"{start}{name}.") if isinstance(value, dict) else {f"{start}{name}": value}
    return flat


def _says_something(value: Any) -> bool:
    return value is not False and value not in (None, "", [])  # 0.0, of a temperature, does
