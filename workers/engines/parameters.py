"""A prefill in vLLM's words: how it is to be sampled, and what is to be told of it."""

from __future__ import annotations

import copy
from functools import lru_cache
from typing import Any

from workers.engines.base import GenerateRequest
from workers.engines.plan import Prefill

__all__ = ["sampling_params"]


def sampling_params(prefill: Prefill) -> Any:
    """vLLM's parameters for `prefill`: nobody else's, so vLLM need not make a deep copy as it does of shared ones."""
    if prefill.generate is not None:
        return _writing(prefill.generate)
    # Making them costs more than all that is told here. What copies share, vLLM only adds the model's EOS to.
    return copy.copy(_weighing(prefill.next_ids, prefill.use_cache))


def _writing(request: GenerateRequest) -> Any:
    from vllm import SamplingParams
    from vllm.sampling_params import RequestOutputKind, StructuredOutputsParams

    wanted, schema = request.sampling, request.json_schema
    return SamplingParams(
        n=wanted.samples,
        max_tokens=wanted.max_tokens,
        temperature=wanted.temperature,
        top_p=wanted.top_p,
        stop=list(wanted.stop),
        seed=request.seed,
        structured_outputs=StructuredOutputsParams(json=schema) if schema else None,
        output_kind=RequestOutputKind.FINAL_ONLY,
        skip_clone=True,
    )


@lru_cache(maxsize=256)
def _weighing(next_ids: tuple[int, ...], use_cache: bool) -> Any:
    from vllm import SamplingParams
    from vllm.sampling_params import RequestOutputKind

    common = {
        "max_tokens": 1,
        "temperature": 0.0,
        "detokenize": False,
        "output_kind": RequestOutputKind.FINAL_ONLY,
        "skip_clone": True,
    }
    if next_ids:
        return SamplingParams(logprob_token_ids=list(next_ids), **common)
    return SamplingParams(prompt_logprobs=0, skip_reading_prefix_cache=not use_cache, **common)
