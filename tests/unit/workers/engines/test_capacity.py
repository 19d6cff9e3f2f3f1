"""When an engine says that it has room for another call."""

from __future__ import annotations

import pytest

from contract.spec import Sampling
from contract.turns import one_turn
from workers.engines.base import GenerateRequest
from workers.engines.capacity import PATIENCE_S, Capacity, Demand
from workers.engines.prefill import Prefill


class Told:
    """Counts how often it was told, by a clock that the test holds."""

    def __init__(self) -> None:
        self.times = 0
        self.now_s = 0.0
        self.capacity = Capacity(8, self.tell, lambda: self.now_s)

    def tell(self) -> None:
        self.times += 1


def test_a_call_that_leaves_slots_free_is_followed_by_word_of_it() -> None:
    told = Told()
    told.capacity.want(4)
    assert told.times == 1
    told.capacity.want(6)  # ten: as many as are to be wanted, the slots and a quarter more
    assert told.times == 1


def test_once_too_few_are_wanted_it_tells_and_then_waits_for_the_call_that_comes_of_it() -> None:
    told = Told()
    told.capacity.want(12)
    told.capacity.leave(2)
    assert told.times == 0
    for _ in range(6):
        told.capacity.leave()
    assert told.times == 1
    told.capacity.want(1)
    assert told.times == 2


def test_a_call_that_never_came_is_made_up_for_by_another() -> None:
    told = Told()
    told.capacity.want(8)
    told.capacity.leave()
    assert told.times == 1
    told.now_s = PATIENCE_S
    told.capacity.leave()
    assert told.times == 2


def prompt(tokens: int) -> Prefill:
    return Prefill([1] * tokens, next_ids=(7,))


@pytest.mark.parametrize(("tokens", "slots"), [(3, 1), (32, 1), (64, 2), (1500, 47)])
def test_a_prompt_that_is_only_prefilled_wants_slots_by_its_share_of_two_steps(tokens: int, slots: int) -> None:
    assert Demand(slots=1024, tokens_per_step=16_384).of(prompt(tokens)) == slots


def test_every_text_of_a_prompt_wants_a_place_of_its_own_however_long_the_prompt() -> None:
    texts = GenerateRequest(one_turn("p"), Sampling(samples=3, temperature=0.5))
    assert Demand(slots=1024, tokens_per_step=16_384).of(Prefill([1] * 500, generate=texts)) == 3


def test_prompts_that_share_most_of_their_tokens_want_slots_for_what_is_computed_of_them() -> None:
    demand = Demand(slots=1024, tokens_per_step=16_384)
    for _ in range(500):
        demand.prefilled(prompt(1000), cached_tokens=900)
    assert demand.of(prompt(1000)) == 3
    for _ in range(500):
        demand.prefilled(prompt(1000), cached_tokens=0)
    assert demand.of(prompt(1000)) == 31
