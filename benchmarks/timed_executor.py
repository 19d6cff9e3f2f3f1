"""An executor for vLLM that waits for as long as a GPU would compute, and answers with random tokens.

All else is vLLM's own: scheduler, prefix cache, core process, and what turns tokens into texts. So it shows what a
machine's processes can do beside a GPU that is not there, and nothing about GPUs. All log-probabilities are alike.

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

import numpy as np
import torch
from vllm.platforms.cpu import CpuPlatform
from vllm.v1.executor.uniproc_executor import UniProcExecutor
from vllm.v1.outputs import LogprobsLists, LogprobsTensors, ModelRunnerOutput

__all__ = ["TimedExecutor"]

#: Constants of a linear congruential generator modulo 2^64: Knuth, The Art of Computer Programming, vol. 2, 3.3.4.
MULTIPLIER, INCREMENT, MODULUS = 6364136223846793005, 1442695040888963407, 2**64
#: Tokens below are special or single bytes.
FIRST_WORD = 512
LOGPROB = -2.0


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
        #: Request → its prompt, the generator's state, and the tokens whose log-probabilities are wanted.
        self._prompts: dict[str, list[int]] = {}
        self._states: dict[str, int] = {}
        self._wanted: dict[str, list[int]] = {}
        #: Requests that want the log-probabilities of their prompt too → number of its tokens that were cached.
        self._cached: dict[str, int] = {}

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
            self._forget(name)
        for each in step.scheduled_new_reqs:
            self._prompts[each.req_id] = each.prompt_token_ids
            self._states[each.req_id] = hash(tuple(each.prompt_token_ids)) % MODULUS
            self._wanted[each.req_id] = each.sampling_params.logprob_token_ids or []
            if each.sampling_params.prompt_logprobs is not None:
                self._cached[each.req_id] = each.num_computed_tokens
        known = step.scheduled_cached_reqs
        before = dict(zip(known.req_ids, known.num_computed_tokens, strict=True))
        return before | {each.req_id: each.num_computed_tokens for each in step.scheduled_new_reqs}

    def _forget(self, name: str) -> None:
        for of_request in (self._prompts, self._states, self._wanted, self._cached):
            of_request.pop(name, None)

    def _answer(self, scheduled: dict[str, int], computed: dict[str, int], at: float) -> ModelRunnerOutput:
        prefilled = [name for name, count in scheduled.items() if computed[name] + count >= self._length(name)]
        tokens = dict.fromkeys(scheduled, ()) | {name: [self._next(name)] for name in prefilled}
        told = {
            name: _of_prompt(self._prompts[name][self._cached[name] :])
            for name in prefilled
            if name in self._cached and computed[name] < self._length(name)
        }
        wanted = [self._wanted.get(name, []) for name in scheduled]
        time.sleep(max(0.0, at - time.monotonic()))
        places = {name: i for i, name in enumerate(scheduled)}
        return ModelRunnerOutput(
            req_ids=list(scheduled),
            req_id_to_index=places,
            sampled_token_ids=list(tokens.values()),
            logprobs=_of_next(wanted) if any(wanted) else None,
            prompt_logprobs_dict=told,
        )

    def _length(self, name: str) -> int:
        # A request that has just ended is still in the step that was scheduled before that was known.
        return len(self._prompts.get(name, ()))

    def _next(self, name: str) -> int:
        state = self._states[name] = (self._states.get(name, 0) * MULTIPLIER + INCREMENT) % MODULUS
        return int(FIRST_WORD + (state >> 16) % self._words if state >> 32 < self._going_on else self._end)


def _of_next(wanted: Sequence[Sequence[int]]) -> LogprobsLists:
    """Return the same log-probability for the wanted tokens of each request, after that of the token that it got."""
    ids = np.zeros((len(wanted), 1 + max(map(len, wanted))), np.int64)
    for row, of_request in zip(ids, wanted, strict=True):
        row[1 : 1 + len(of_request)] = of_request
    return LogprobsLists(ids, np.full(ids.shape, LOGPROB, np.float32), np.ones(len(ids), np.int64))


def _of_prompt(prompt: Sequence[int]) -> LogprobsTensors:
    """Return the same log-probability for each token but the first: as vLLM does on a GPU, none for cached ones."""
    ids = torch.tensor(prompt[1:]).unsqueeze(1)
    return LogprobsTensors(ids, torch.full(ids.shape, LOGPROB), torch.ones(len(ids), dtype=torch.int64))


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
