"""The cheapest exact set of prefills for a request, and how their outputs are read. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from contract.errors import RequestRejected
from workers.engines.base import Completion, GenerateRequest, Request, Text
from workers.engines.encoding import Encoded

__all__ = ["LEAD_FROM_TOKENS", "Plan", "Prefill", "ScorePlan", "TextPlan", "excess_tokens", "make_plan"]

#: From so many tokens on, a prompt is prefilled by itself first, and its continuations read it from the cache. To tell
#: how likely a prefill's own tokens are makes them dearer by half on a CPU: the vocabulary's distribution at each. What
#: is computed twice instead is what fills no block of the cache, half a block in the mean.
LEAD_FROM_TOKENS = 64


@dataclass(frozen=True, slots=True)
class Prefill:
    """One request to vLLM."""

    token_ids: list[int]
    #: How likely is each of these after `token_ids`?
    next_ids: tuple[int, ...] = ()
    #: Without `next_ids`: how likely are the tokens of `token_ids` from here on?
    start: int = 0
    #: Instead of either: write.
    generate: GenerateRequest | None = None
    #: LoRA adapter; empty: none.
    adapter: str = ""
    #: Whether cached blocks may stand in for computing them again.
    use_cache: bool = True

    @property
    def places(self) -> int:
        """Sequences that it is to vLLM, each of which takes one of `max_num_seqs`."""
        return self.generate.sampling.samples if self.generate else 1

    def is_trustworthy(self, output: Any) -> bool:
        """Whether the output's log-probabilities were computed, not left over from a cached block.

        For positions whose keys and values came from the prefix cache, vLLM answers `prompt_logprobs` with leftovers
        (its model runner V1, on a CPU) or with nothing (V2, on a GPU). The first token of the continuation is predicted
        by the last of the prompt, so that one must be computed too.
        """
        if self.start == 0 or not self.use_cache:
            return True
        scored = len(self.token_ids) - self.start
        return (output.num_cached_tokens or 0) < self.start and len(output.prompt_logprobs or ()) > scored


class Plan(Protocol):
    """What is asked of vLLM for one request."""

    @property
    def prefills(self) -> Sequence[Prefill]:
        """In the order in which `read` wants their outputs."""

    def read(self, outputs: Sequence[Any]) -> Completion:
        """The completion that vLLM's outputs amount to."""


def excess_tokens(request: Request, encoded: Encoded, limit: int) -> int:
    """By how many tokens `request` is too long for a context of `limit`, with all that may be written; else 0."""
    if isinstance(request, GenerateRequest):
        return max(0, len(encoded.prompt) + request.sampling.max_tokens - limit)
    return max(0, len(encoded.prompt) + _scored(encoded) + 1 - limit)


def _scored(encoded: Encoded) -> int:
    """Tokens that are fed after the prompt, besides the one that vLLM generates whether it is wanted or not.

    A single-token choice is read from the prompt's own last position.
    """
    longest = max(map(len, encoded.tails))
    return longest if longest > 1 else 0


def make_plan(request: Request, encoded: Encoded, limit: int, *, caches: bool) -> Plan | RequestRejected:
    """The plan for `request`; `limit` is the model's context in tokens, `caches` whether prefixes are computed once.

    A request that does not fit is rejected with the counts, and never cut.
    """
    if not encoded.prompt or any(not tail for tail in encoded.tails):
        return RequestRejected("The prompt or a choice has no tokens.", hint="Check the prompt template.")
    prompt = len(encoded.prompt)
    hint = "Raise vllm_args.max_model_len if the model allows it, or shorten the prompt."
    if isinstance(request, GenerateRequest):
        if prompt >= limit:
            return RequestRejected(f"Prompt of {prompt} tokens fills the context of {limit}.", hint=hint)
        return TextPlan(encoded.prompt, request)
    if excess_tokens(request, encoded, limit):
        longest = max(map(len, encoded.tails))
        return RequestRejected(
            f"Prompt of {prompt} tokens and longest choice of {longest} exceed the context of {limit}.", hint=hint
        )
    return ScorePlan.make(encoded.prompt, encoded.tails, request.adapter, caches=caches)


@dataclass(frozen=True, slots=True)
class ScorePlan:
    """One prefill of the prompt tells how likely each continuation begins; what goes on takes a prefill of its own.

    A short prompt without any continuation of a single token saves the first: its continuations take one prefill each.
    """

    prompt_tokens: int
    tails: list[list[int]]
    prefills: Sequence[Prefill]

    @classmethod
    def make(cls, prompt: list[int], tails: list[list[int]], adapter: str = "", *, caches: bool) -> ScorePlan:
        """The prefills: the shared one first."""
        leads = any(len(tail) == 1 for tail in tails) or (caches and len(prompt) >= LEAD_FROM_TOKENS)
        # At most 26 choices, so always within vLLM's limit of 128 tokens at once.
        firsts = tuple(sorted({tail[0] for tail in tails}))
        shared = [Prefill(prompt, next_ids=firsts, adapter=adapter)] if leads else []
        start = len(prompt) + leads
        own = [Prefill(prompt + tail, start=start, adapter=adapter) for tail in tails if len(tail) > 1]
        return cls(len(prompt), tails, shared + own)

    def read(self, outputs: Sequence[Any]) -> Completion:
        """Log-probabilities in the order of the continuations."""
        wholes: Iterator[Any] = iter(outputs)
        next_token = next(wholes).outputs[0].logprobs[0] if self.prefills[0].next_ids else None
        logprobs = []
        for tail in self.tails:
            begins = next_token[tail[0]].logprob if next_token else 0.0
            rest = tail[1:] if next_token else tail
            logprobs.append(begins + (_tail_logprob(next(wholes), rest) if rest else 0.0))
        return Completion(
            logprobs=tuple(logprobs),
            token_counts=tuple(map(len, self.tails)),
            prompt_tokens=self.prompt_tokens,
            prefill_tokens=sum(len(each.token_ids) for each in self.prefills),
            cached_tokens=_cached(outputs),
        )


@dataclass(frozen=True, slots=True)
class TextPlan:
    """One prefill, and as many texts as are asked for."""

    prompt: list[int]
    request: GenerateRequest

    @property
    def prefills(self) -> Sequence[Prefill]:
        return [Prefill(self.prompt, generate=self.request, adapter=self.request.adapter)]

    def read(self, outputs: Sequence[Any]) -> Completion:
        """The texts, in vLLM's order of samples."""
        written = sorted(outputs[0].outputs, key=lambda each: each.index)
        return Completion(
            texts=tuple(Text(each.text, len(each.token_ids), each.finish_reason == "length") for each in written),
            prompt_tokens=len(self.prompt),
            prefill_tokens=len(self.prompt),
            cached_tokens=_cached(outputs),
        )


def _tail_logprob(output: Any, tail: list[int]) -> float:
    rows = output.prompt_logprobs[-len(tail) :]  # counted from the end: on a GPU, cached positions have no row
    return float(sum(row[token].logprob for row, token in zip(rows, tail, strict=True)))


def _cached(outputs: Sequence[Any]) -> int:
    return sum(output.num_cached_tokens or 0 for output in outputs)
