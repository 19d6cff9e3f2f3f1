"""An executor for vLLM that waits for as long as a GPU would compute, and answers with random tokens.

All else is vLLM's own: scheduler, prefix cache, core process, and what turns tokens into texts. So it shows what a
machine's processes can do beside a GPU that is not there, and nothing about GPUs. Only texts can be asked for.

`vllm_args.additional_config` has its parameters:

- `ms_per_1000_tokens`: time of a step, per 1,000 tokens in it;
- `least_ms`: time of a step with few tokens, in which a GPU reads all weights;
- `mean_tokens`: mean length of the texts, which is distributed geometrically.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from vllm.platforms.cpu import CpuPlatform
from vllm.v1.executor.uniproc_executor import UniProcExecutor
from vllm.v1.outputs import ModelRunnerOutput

__all__ = ["TimedExecutor"]

#: Constants of a linear congruential generator modulo 2^64: Knuth, The Art of Computer Programming, vol. 2, 3.3.4.
MULTIPLIER, INCREMENT, MODULUS = 6364136223846793005, 1442695040888963407, 2**64
#: Tokens below are special or single bytes.
FIRST_WORD = 512


class TimedExecutor(UniProcExecutor):  # type: ignore[misc] # vLLM is not checked
    """Loads the model, and never asks it. The same prompt gets the same text."""

    def _init_executor(self) -> None:
        super()._init_executor()
        given = self.vllm_config.additional_config
        self._s_per_token = given["ms_per_1000_tokens"] / 1e6
        self._least_s = given["least_ms"] / 1000
        self._going_on = int((1 - 1 / given["mean_tokens"]) * 2**32)
        model = self.vllm_config.model_config.hf_config
        self._end, self._words = model.eos_token_id, model.vocab_size - FIRST_WORD
        self._gpu = ThreadPoolExecutor(1)
        self._free_at = 0.0
        self._scheduled: Any = None
        #: Request → number of its prompt's tokens, and the generator's state.
        self._prompt_tokens: dict[str, int] = {}
        self._states: dict[str, int] = {}

    def execute_model(self, scheduler_output: Any, non_block: bool = False) -> Any:
        """Accept a step, as vLLM's GPU runner does: its tokens are asked for next."""
        self._scheduled = scheduler_output
        nothing = ModelRunnerOutput(req_ids=[], req_id_to_index={})
        found = None if scheduler_output.total_num_scheduled_tokens else nothing
        return _done(found) if non_block else found

    def sample_tokens(self, grammar_output: Any, non_block: bool = False) -> Any:  # noqa: ARG002 - vLLM's signature
        """Return the step's tokens, when a GPU that works on one step after another would have them."""
        step = self._scheduled
        computed = self._admit(step)
        busy_s = max(self._least_s, step.total_num_scheduled_tokens * self._s_per_token)
        self._free_at = max(time.monotonic(), self._free_at) + busy_s
        answer = self._gpu.submit(self._answer, dict(step.num_scheduled_tokens), computed, self._free_at)
        return answer if non_block else answer.result()

    def _admit(self, step: Any) -> dict[str, int]:
        """Take in what the step changes; return request → tokens computed before it."""
        for name in step.finished_req_ids:
            self._prompt_tokens.pop(name, None)
            self._states.pop(name, None)
        for each in step.scheduled_new_reqs:
            self._prompt_tokens[each.req_id] = len(each.prompt_token_ids)
            self._states[each.req_id] = hash(tuple(each.prompt_token_ids)) % MODULUS
        known = step.scheduled_cached_reqs
        before = dict(zip(known.req_ids, known.num_computed_tokens, strict=True))
        return before | {each.req_id: each.num_computed_tokens for each in step.scheduled_new_reqs}

    def _answer(self, scheduled: dict[str, int], computed: dict[str, int], at: float) -> ModelRunnerOutput:
        tokens: list[Sequence[int]] = []
        for name, count in scheduled.items():
            is_prefilled = computed[name] + count >= self._prompt_tokens.get(name, 0)
            tokens.append([self._next(name)] if is_prefilled else [])
        time.sleep(max(0.0, at - time.monotonic()))
        places = {name: i for i, name in enumerate(scheduled)}
        return ModelRunnerOutput(req_ids=list(scheduled), req_id_to_index=places, sampled_token_ids=tokens)

    def _next(self, name: str) -> int:
        # A request that has just ended is still in the step that was scheduled before that was known.
        state = self._states[name] = (self._states.get(name, 0) * MULTIPLIER + INCREMENT) % MODULUS
        return int(FIRST_WORD + (state >> 16) % self._words if state >> 32 < self._going_on else self._end)


def _done(result: Any) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_result(result)
    return future


def _schedule_ahead(check_and_update_config: Any) -> Any:
    """Return vLLM's adjustment of a configuration to a CPU without what it takes from it: scheduling during a step."""

    def adjusted(cls: Any, vllm_config: Any) -> None:
        check_and_update_config.__func__(cls, vllm_config)
        vllm_config.scheduler_config.async_scheduling = True

    return classmethod(adjusted)


CpuPlatform.check_and_update_config = _schedule_ahead(CpuPlatform.check_and_update_config)
