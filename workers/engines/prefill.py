"""One request to vLLM, and the log-probabilities found in its outputs. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from workers.engines.base import GenerateRequest

__all__ = ["Prefill", "Scores"]


@dataclass(frozen=True, slots=True)
class Prefill:
    """One request to vLLM."""

    token_ids: list[int]
    #: Tokens whose log-probability after `token_ids` is wanted.
    next_ids: tuple[int, ...] = ()
    #: Position in `token_ids` from which on log-probabilities are wanted; 0 means none.
    start: int = 0
    #: Generate text instead of scoring.
    generate: GenerateRequest | None = None
    #: LoRA adapter; empty for none.
    adapter: str = ""
    #: Whether blocks from the prefix cache may be used.
    use_cache: bool = True


class Scores:
    """The log-probabilities that a prefill was made for, gathered from vLLM's outputs."""

    __slots__ = ("_found", "computed_tokens")

    def __init__(self) -> None:
        self._found: dict[tuple[int, int], float] = {}
        #: Tokens that did not come from the prefix cache.
        self.computed_tokens = 0

    def of(self, position: int, token: int) -> float:
        """Return the log-probability of `token` at `position`, counted from the beginning of the prompt."""
        return self._found[position, token]

    def add(self, prefill: Prefill, output: Any, block_tokens: int) -> list[Prefill]:
        """Read `output`, vLLM's for `prefill`; return the prefills that tell what it lacks, to be added too.

        A token is predicted by the one before it. Where that came from the prefix cache, vLLM fills `prompt_logprobs`
        with stale values (its model runner V1, on a CPU) or omits them (V2, on a GPU).
        """
        cached, length = output.num_cached_tokens or 0, len(prefill.token_ids)
        self.computed_tokens += length - cached
        for token in prefill.next_ids:
            self._found[length, token] = _at(output.outputs[0].logprobs, 0, token)
        if not prefill.start:
            return []
        # The first row, for the token after the cached ones, is empty on a GPU, and of the first token of all on a CPU.
        unread = max(cached, length - len(output.prompt_logprobs or ())) if prefill.use_cache else 0
        for position in range(max(prefill.start, unread + 1), length):
            token = prefill.token_ids[position]
            # Index from the end: on a GPU, cached positions have no row.
            self._found[position, token] = _at(output.prompt_logprobs, position - length, token)
        return list(_for_cached(prefill, unread, block_tokens)) if unread >= prefill.start else []


def _for_cached(prefill: Prefill, cached: int, block_tokens: int) -> Iterator[Prefill]:
    """Yield the cheapest prefills that tell the tokens of `prefill` from its start up to position `cached`.

    vLLM caches whole blocks, but always computes the last token of a prompt, so that a prompt that ends with a block
    has that block computed (`get_computed_blocks` of its `KVCacheManager`). This tells the tokens of the block, except
    for the first, which the block before predicts, and the one after it.
    """
    if cached % block_tokens:  # not what is known of vLLM's cache
        yield replace(prefill, use_cache=False)
        return
    first_block = (prefill.start - 1) // block_tokens
    for end in range((first_block + 1) * block_tokens, cached + 1, block_tokens):
        start = max(prefill.start, end - block_tokens + 1)
        yield Prefill(
            prefill.token_ids[:end],
            next_ids=(prefill.token_ids[end],),
            start=start if start < end else 0,
            adapter=prefill.adapter,
        )


def _at(flat: Any, row: int, token: int) -> float:
    """Return the value for `token` in a row of vLLM's FlatLogprobs, which stores all rows concatenated."""
    first, end = flat.start_indices[row], flat.end_indices[row]
    return float(flat.logprobs[flat.token_ids.index(token, first, end)])
