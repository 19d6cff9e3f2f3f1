"""Log-probabilities are right whatever vLLM has in its prefix cache, and what it lacks costs a few blocks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import SimpleNamespace

import pytest

from tests.unit.workers.ready_engine import FlatRows, Row
from workers.engines.prefill import Prefill, Scores

BLOCK = 4
STALE = 99.0
TOKENS = list(range(1, 24))
NEXT = 77


def truth(before: Sequence[int], token: int) -> float:
    """Differs for every context and token."""
    return -float(token) - sum(each * 100.0 ** (1 + k) for k, each in enumerate(before[-3:]))


class CachingVllm:
    """What vLLM says of a prompt, with the first blocks of a text in its cache, and which tokens it computes for it."""

    def __init__(self, cached: Sequence[int], *, omits: bool, blocks_of: int = BLOCK) -> None:
        self.computed = 0
        self._cached = list(cached)
        self._omits = omits
        self._block = blocks_of

    def output(self, prefill: Prefill) -> SimpleNamespace:
        ids = prefill.token_ids
        cached = self._cached_of(ids) if prefill.use_cache else 0
        self.computed += len(ids) - cached
        next_row = {5: STALE, **{token: truth(ids, token) for token in prefill.next_ids}}
        rows = [{}, *self._rows(ids, cached)] if prefill.start else None
        return SimpleNamespace(
            outputs=[SimpleNamespace(logprobs=FlatRows(next_row))],
            prompt_logprobs=rows and FlatRows(*rows),
            num_cached_tokens=cached,
        )

    def _cached_of(self, ids: Sequence[int]) -> int:
        """At least the last token is computed, and with it its block."""
        same = next(
            (at for at, pair in enumerate(zip(ids, self._cached, strict=False)) if pair[0] != pair[1]), len(ids)
        )
        return min(same, len(self._cached), len(ids) - 1) // self._block * self._block

    def _rows(self, ids: Sequence[int], cached: int) -> Iterator[Row]:
        for position in range(1, len(ids)):
            if position > cached:
                yield {ids[position]: truth(ids[:position], ids[position])}
            elif not self._omits:
                yield {ids[position]: STALE}


def scored(prefill: Prefill, vllm: CachingVllm, block_tokens: int = BLOCK) -> tuple[Scores, list[Prefill]]:
    """Ask for `prefill` and for whatever is lacking then; return that too."""
    scores, waiting, further = Scores(), [prefill], []
    while waiting:
        asked = waiting.pop()
        lacking = scores.add(asked, vllm.output(asked), block_tokens)
        waiting += lacking
        further += lacking
    return scores, further


def assert_true(scores: Scores, prefill: Prefill) -> None:
    ids = prefill.token_ids
    wanted = range(prefill.start, len(ids)) if prefill.start else []
    assert [scores.of(at, ids[at]) for at in wanted] == [truth(ids[:at], ids[at]) for at in wanted]
    assert scores.of(len(ids), NEXT) == truth(ids, NEXT)


@pytest.mark.parametrize("omits", [False, True], ids=["stale rows as on a CPU", "no rows as on a GPU"])
@pytest.mark.parametrize("start", range(1, len(TOKENS)))
def test_log_probabilities_are_right_whichever_blocks_come_from_the_cache(start: int, omits: bool) -> None:
    for length in range(start + 1, len(TOKENS) + 1):
        prefill = Prefill(TOKENS[:length], next_ids=(NEXT,), start=start)
        for cached in range(len(TOKENS) + 1):
            scores, _ = scored(prefill, CachingVllm(TOKENS[:cached], omits=omits))
            assert_true(scores, prefill)


@pytest.mark.parametrize("omits", [False, True])
def test_a_cache_that_counts_in_other_blocks_than_expected_costs_time_and_no_exactness(omits: bool) -> None:
    prefill = Prefill(TOKENS, next_ids=(NEXT,), start=9)
    scores, further = scored(prefill, CachingVllm(TOKENS, omits=omits, blocks_of=3))
    assert_true(scores, prefill)
    assert [each.use_cache for each in further] == [False]


def test_of_a_long_prompt_only_the_blocks_with_wanted_tokens_are_computed_again() -> None:
    prefill = Prefill(TOKENS, next_ids=(NEXT,), start=14, adapter="law")
    vllm = CachingVllm(TOKENS, omits=True)
    scores, further = scored(prefill, vllm)
    assert [(each.token_ids, each.start) for each in further] == [(TOKENS[:16], 14), (TOKENS[:20], 17)]
    assert [each.adapter for each in further] == ["law", "law"]
    assert vllm.computed == scores.computed_tokens == 3 + 2 * BLOCK


def test_blocks_lost_from_the_cache_meanwhile_are_computed() -> None:
    prefill = Prefill(TOKENS, next_ids=(NEXT,), start=14)
    scores = Scores()
    further = scores.add(prefill, CachingVllm(TOKENS, omits=True).output(prefill), BLOCK)
    empty = CachingVllm([], omits=True)
    assert [scores.add(each, empty.output(each), BLOCK) for each in further] == [[], []]
    assert_true(scores, prefill)


def test_nothing_is_asked_again_where_only_the_prompt_came_from_the_cache() -> None:
    prefill = Prefill(TOKENS, next_ids=(NEXT,), start=17)
    assert scored(prefill, CachingVllm(TOKENS[:16], omits=True))[1] == []
    lead = Prefill(TOKENS[:16], next_ids=(NEXT,))
    assert scored(lead, CachingVllm(TOKENS, omits=True))[1] == [], "what comes next is always computed"
