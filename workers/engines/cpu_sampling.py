"""Sampling on a CPU while prompts are read in parts, which vLLM 0.32 ends with "CPU Generator does not use offset"."""

from __future__ import annotations

from typing import Any

__all__ = ["sample_only_whole_prompts"]


def sample_only_whole_prompts() -> None:
    """Have vLLM's model runner in this process draw nothing for prompts that it has not read to their end.

    A step that cannot take a whole prompt samples a token behind its first part all the same, discards it, and turns
    the request's generator back by an offset (`GPUModelRunner._bookkeeping_sync`). Generators on a CPU have none, and
    the engine dies. Without its generator during that step, a request draws nothing that would have to be turned back,
    so that its text depends on its seed alone, as on a GPU.
    """
    from vllm.v1.worker.gpu_model_runner import GPUModelRunner

    sample_tokens = GPUModelRunner.sample_tokens
    if getattr(sample_tokens, "only_whole_prompts", False):
        return

    def sample(self: Any, grammar_output: Any) -> Any:
        batch = self.input_batch
        is_discarded = self.discard_request_mask.np
        unfinished = {i: generator for i, generator in batch.generators.items() if is_discarded[i]}
        for i in unfinished:
            del batch.generators[i]
        try:
            return sample_tokens(self, grammar_output)
        finally:
            batch.generators.update(unfinished)

    sample.only_whole_prompts = True  # type: ignore[attr-defined]
    GPUModelRunner.sample_tokens = sample
