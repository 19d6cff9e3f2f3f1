"""What an engine says of itself, as far as it can change an answer."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

__all__ = ["EngineUsed", "differing", "told"]

#: Of an engine's description. A model's path may differ where its weights do not. Left out is what moves no more than
#: last digits, like the kind of GPU: hosts of several kinds serve one run.
DECIDE = (
    "mcqueue",
    "engine",
    "vllm",
    "weights",
    "dtype",
    "kv_cache_dtype",
    "quantization",
    "max_model_len",
    "adapters",
)


class EngineUsed(BaseModel):
    """An engine that answered questions of a run, by the worker that had it, and since when."""

    model_config = ConfigDict(frozen=True, extra="ignore")  # a newer worker may say more

    worker: str
    #: Seconds since the epoch, by the worker's clock: before its first verdict in the run.
    since: float
    #: Its own description.
    engine: dict[str, Any] = Field(default_factory=dict)


def differing(engines: Iterable[Mapping[str, Any]]) -> dict[str, list[str]]:
    """What can change an answer and is not the same in all of `engines`: its name and the values, as JSON.

    >>> differing([{"engine": "vllm", "dtype": "float32"}, {"engine": "vllm", "dtype": "bfloat16"}])
    {'dtype': ['"float32"', '"bfloat16"']}
    """
    known = list(engines)
    names = DECIDE if all(each.get("weights") for each in known) else ("model", *DECIDE)
    values = {name: list(dict.fromkeys(json.dumps(each.get(name), sort_keys=True) for each in known)) for name in names}
    return {name: found for name, found in values.items() if len(found) > 1}


def told(differs: Mapping[str, Sequence[str]]) -> str:
    """What differs, in a line.

    >>> print(told({"dtype": ['"float32"', '"bfloat16"'], "quantization": ["null", '"awq"']}))
    dtype ("float32", "bfloat16"), quantization (null, "awq")
    """
    return ", ".join(f"{name} ({', '.join(values)})" for name, values in differs.items())
