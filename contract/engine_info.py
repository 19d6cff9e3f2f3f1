"""The parts of an engine's description that can change an answer."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

__all__ = ["EngineUsed", "describe_differences", "differing", "is_simulated", "left_to_model"]

#: Fields of an engine's description that are compared. A model's path may differ where its weights do not. Fields that
#: only affect the last digits are left out, e.g. the kind of GPU: one run may be served by different hosts.
DECIDE = (
    "mcqueue",
    "rules",
    "engine",
    "vllm",
    "weights",
    "tokenizer",
    "dtype",
    "kv_cache_dtype",
    "quantization",
    "overrides",
    "max_model_len",
    "adapters",
    "left_to_model",
)
#: Those that are compared only where all are known: only vLLM has a tokenizer, and only texts are read by rules.
UNKNOWN_TO_SOME = frozenset({"rules", "tokenizer"})


class EngineUsed(BaseModel):
    """An engine that answered questions of a run: its worker, and since when that has had it."""

    model_config = ConfigDict(frozen=True, extra="ignore")  # a newer worker may send more

    worker: str
    #: Seconds since the epoch, by the worker's clock: earlier than its first verdict in the run, and later than the
    #: last one of the engine that a worker of this name had before.
    since: float
    #: What the engine reports about itself.
    engine: dict[str, Any] = Field(default_factory=dict)


def is_simulated(engine: Mapping[str, Any]) -> bool:
    """Whether the engine of this description makes its answers up."""
    return engine.get("engine") == "simulated"


def differing(engines: Iterable[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Return the answer-relevant fields that differ among `engines`, with their values as JSON.

    >>> differing([{"engine": "vllm", "dtype": "float32"}, {"engine": "vllm", "dtype": "bfloat16"}])
    {'dtype': ['"float32"', '"bfloat16"']}
    """
    known = list(engines)
    names = list(DECIDE if all(each.get("weights") for each in known) else ("model", *DECIDE))
    names = [each for each in names if each not in UNKNOWN_TO_SOME or all(engine.get(each) for engine in known)]
    values = {name: list(dict.fromkeys(json.dumps(each.get(name), sort_keys=True) for each in known)) for name in names}
    return {name: found for name, found in values.items() if len(found) > 1}


def describe_differences(differs: Mapping[str, Sequence[str]]) -> str:
    """Format the differences in one line.

    >>> print(describe_differences({"dtype": ['"float32"', '"bfloat16"'], "quantization": ["null", '"awq"']}))
    dtype ("float32", "bfloat16"), quantization (null, "awq")
    """
    return ", ".join(f"{name} ({', '.join(values)})" for name, values in differs.items())


def left_to_model(engines: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the sampling parameters that any of `engines` could not pass on, so that the model used its own.

    >>> left_to_model([{"engine": "openai", "left_to_model": ["temperature"]}, {"engine": "openai"}])
    ['temperature']
    """
    return sorted({name for each in engines for name in each.get("left_to_model") or ()})
