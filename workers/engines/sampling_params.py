"""Conversion of a prefill to vLLM's SamplingParams."""

from __future__ import annotations

import copy
from functools import cache, lru_cache
from typing import Any

from contract.spec import Sampling
from workers.engines.prefill import Prefill

__all__ = ["sampling_params"]

#: Kinds of texts whose parameters are kept: callers over HTTP may each want another.
TEMPLATES = 256


def sampling_params(prefill: Prefill) -> Any:
    """Return vLLM's SamplingParams for `prefill`: an object of its own, so that vLLM need not deep-copy it.

    To construct one is expensive, so a template is copied. The copies share what the template refers to. Of that, vLLM
    changes only what is the same for all: it adds the model's EOS and, for a schema, the backend that it chooses.
    """
    if prefill.generate is not None:
        generating = copy.copy(_generating(prefill.generate.sampling, prefill.generate.json_schema))
        generating.seed = prefill.generate.seed
        return generating
    scoring = copy.copy(_scoring(prefill.start > 0, prefill.use_cache))
    scoring.logprob_token_ids = list(prefill.next_ids)
    return scoring


@lru_cache(TEMPLATES)
def _generating(wanted: Sampling, schema: str) -> Any:
    """Return parameters for texts, whose seed is to be set."""
    from vllm import SamplingParams
    from vllm.sampling_params import RequestOutputKind, StructuredOutputsParams

    budget = wanted.thinking_token_budget
    return SamplingParams(
        n=wanted.samples,
        max_tokens=wanted.max_tokens,
        temperature=wanted.temperature,
        top_p=wanted.top_p,
        top_k=wanted.top_k,
        min_p=wanted.min_p,
        presence_penalty=wanted.presence_penalty,
        repetition_penalty=wanted.repetition_penalty,
        stop=list(wanted.stop),
        seed=0,
        # Models mark their reasoning, and the end of a turn, by special tokens. Without them, one reads like the other.
        skip_special_tokens=False,
        structured_outputs=StructuredOutputsParams(json=schema) if schema else None,
        output_kind=RequestOutputKind.FINAL_ONLY,
        skip_clone=True,
        **({} if budget is None else {"thinking_token_budget": budget}),  # not every vLLM knows it
    )


@cache
def _scoring(of_prompt: bool, use_cache: bool) -> Any:
    """Return parameters for the log-probabilities of next tokens and, if `of_prompt`, of the prompt's own tokens."""
    from vllm import SamplingParams
    from vllm.sampling_params import RequestOutputKind

    return SamplingParams(
        max_tokens=1,
        temperature=0.0,
        prompt_logprobs=0 if of_prompt else None,
        # Flat lists: one object per token of every prompt would cost vLLM more time than the rest of its output.
        flat_logprobs=True,
        detokenize=False,
        output_kind=RequestOutputKind.FINAL_ONLY,
        skip_reading_prefix_cache=not use_cache,
        skip_clone=True,
    )
