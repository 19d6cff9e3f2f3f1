"""How a request becomes prefills: the arithmetic of the vLLM engine, without vLLM."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from contract.errors import ModelNotFound, RequestRejected
from workers.engines.packaged import resolve
from workers.engines.vllm import _continuation_ids, _Plan

PROMPT = [1, 2, 3]


def plan(*tails: list[int], limit: int = 100) -> _Plan:
    made = _Plan.make(PROMPT, list(tails), limit)
    assert isinstance(made, _Plan)
    return made


def next_token(**logprobs: float) -> SimpleNamespace:
    """vLLM's output for a prefill that asked for next tokens."""
    row = {int(token.removeprefix("t")): SimpleNamespace(logprob=value) for token, value in logprobs.items()}
    return SimpleNamespace(outputs=[SimpleNamespace(logprobs=[row])])


def whole(*logprobs: float, tail: list[int]) -> SimpleNamespace:
    """vLLM's output for a prefill of prompt and continuation; the prompt's own rows must not count."""
    rows = [None, {2: SimpleNamespace(logprob=-99.0)}, {3: SimpleNamespace(logprob=-99.0)}]
    rows += [{token: SimpleNamespace(logprob=value)} for token, value in zip(tail, logprobs, strict=True)]
    return SimpleNamespace(prompt_logprobs=rows)


def test_single_tokens_share_one_prefill_of_the_prompt() -> None:
    made = plan([10], [11], [12], [13])
    assert [(prefill.token_ids, prefill.next_ids) for prefill in made.prefills] == [(PROMPT, (10, 11, 12, 13))]
    completion = made.read([next_token(t10=-1.0, t11=-2.0, t12=-3.0, t13=-4.0)])
    assert completion.logprobs == (-1.0, -2.0, -3.0, -4.0)
    assert completion.prefill_tokens == 3


def test_longer_continuations_take_one_prefill_each_and_sum_their_own_tokens() -> None:
    made = plan([10, 11], [12, 13, 14])
    assert [prefill.token_ids for prefill in made.prefills] == [[1, 2, 3, 10, 11], [1, 2, 3, 12, 13, 14]]
    completion = made.read([whole(-1.0, -2.0, tail=[10, 11]), whole(-0.5, -0.5, -0.5, tail=[12, 13, 14])])
    assert completion.logprobs == pytest.approx((-3.0, -1.5))
    assert completion.token_counts == (2, 3)
    assert completion.prefill_tokens == 11


def test_short_and_long_continuations_mix_in_the_order_asked() -> None:
    made = plan([10, 11], [12], [13])
    completion = made.read([next_token(t12=-7.0, t13=-8.0), whole(-1.0, -1.0, tail=[10, 11])])
    assert completion.logprobs == (-2.0, -7.0, -8.0)


def test_more_single_tokens_than_vllm_takes_at_once_are_cut_into_several_prefills() -> None:
    made = plan(*([token] for token in range(200)))
    assert [len(prefill.next_ids) for prefill in made.prefills] == [128, 72]


def test_a_prompt_that_does_not_fit_is_rejected_with_the_counts_and_never_cut() -> None:
    rejected = _Plan.make(PROMPT, [[10, 11]], 5)
    assert isinstance(rejected, RequestRejected)
    assert "Prompt of 3 tokens and longest choice of 2 exceed the context of 5" in str(rejected)
    assert isinstance(_Plan.make(PROMPT, [[10, 11]], 6), _Plan)


def test_a_continuation_is_what_the_tokens_of_the_whole_have_beyond_the_prompts() -> None:
    assert _continuation_ids([1, 2], [1, 2, 9]) == [9]
    assert _continuation_ids([1, 2], [1, 7, 9]) == [9]


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("/no/such/folder", "no folder /no/such/folder"),
        ("smollm2-135m", "neither a folder.*Did you mean 'smollm2-135m-instruct'"),
    ],
)
def test_a_model_that_does_not_exist_is_named_with_the_nearest(name: str, says: str) -> None:
    with pytest.raises(ModelNotFound, match=says):
        resolve(name)


def test_a_hub_id_is_passed_on() -> None:
    assert resolve("Qwen/Qwen2.5-1.5B-Instruct") == "Qwen/Qwen2.5-1.5B-Instruct"
