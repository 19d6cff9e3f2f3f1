"""A prefill in vLLM's words: how it is to be sampled, and what is to be told of it."""

from __future__ import annotations

import copy
from functools import cache
from typing import Any

from workers.engines.base import GenerateRequest
from workers.engines.prefill_plan import Prefill

__all__ = ["sampling_params"]


def sampling_params(prefill: Prefill) -> Any:
    """vLLM's parameters for `prefill`: nobody else's, so vLLM need not make a deep copy as it does of shared ones."""
    if prefill.generate is not None:
        return _writing(prefill.generate)
    # Making them costs more than all that is told here. What copies share, vLLM only adds the model's EOS to.
    weighing = copy.copy(_weighing(prefill.start > 0, prefill.use_cache))
    weighing.logprob_token_ids = list(prefill.next_ids)
    return weighing


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


@cache
def _weighing(of_prompt: bool, use_cache: bool) -> Any:
    """How likely are tokens that may come next, and, if asked, each of the prompt itself."""
    from vllm import SamplingParams
    from vllm.sampling_params import RequestOutputKind

    return SamplingParams(
        max_tokens=1,
        temperature=0.0,
        prompt_logprobs=0 if of_prompt else None,
        # In plain lists: an object for every token of every prompt takes vLLM more time than all else that it tells.
        flat_logprobs=True,
        detokenize=False,
        output_kind=RequestOutputKind.FINAL_ONLY,
        skip_reading_prefix_cache=not use_cache,
        skip_clone=True,
    )
