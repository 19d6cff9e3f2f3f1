"""The cheapest exact set of prefills for a request, and how their outputs are read. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from contract.errors import RequestRejected
from workers.engines.base import Completion, GenerateRequest, Request, Text
from workers.engines.encoding import Encoded

__all__ = [
    "LEAD_FROM_PAIRS",
    "LEAD_FROM_TOKENS",
    "Plan",
    "Prefill",
    "ScorePlan",
    "TextPlan",
    "excess_tokens",
    "make_plan",
]

#: Of a continuation, all tokens but the last: what is fed after the prompt.
Head: TypeAlias = tuple[int, ...]
#: From so many tokens on, a prompt is prefilled by itself first, and its continuations read it from the cache. One that
#: is asked how likely its own tokens are takes half as long again on a CPU, for the vocabulary's distribution at each.
#: With the prompt cached, only what fills no block of the cache is computed again: half a block in the mean.
LEAD_FROM_TOKENS = 64
#: A shorter one, too, from so many continuations of two tokens on: that half is saved for each of them.
LEAD_FROM_PAIRS = 3
#: Characters at a prompt's end: enough for the tag by which some templates have the model begin to reason.
ENDING = 40


@dataclass(frozen=True, slots=True)
class Prefill:
    """One request to vLLM."""

    token_ids: list[int]
    #: How likely is each of these after `token_ids`?
    next_ids: tuple[int, ...] = ()
    #: How likely are the tokens of `token_ids` from here on? 0: nobody asks.
    start: int = 0
    #: Instead of both: write.
    generate: GenerateRequest | None = None
    #: LoRA adapter; empty: none.
    adapter: str = ""
    #: Whether cached blocks may stand in for computing them again.
    use_cache: bool = True

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
    # A choice's last token is not fed; in its place, vLLM generates one, whether it is wanted or not.
    return max(0, len(encoded.prompt) + max(map(len, encoded.tails)) - limit)


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
        return TextPlan(encoded.prompt, request, encoded.text[-ENDING:])
    if excess_tokens(request, encoded, limit):
        longest = max(map(len, encoded.tails))
        return RequestRejected(
            f"Prompt of {prompt} tokens and longest choice of {longest} exceed the context of {limit}.", hint=hint
        )
    return ScorePlan.make(encoded.prompt, encoded.tails, request.adapter, caches=caches)


@dataclass(frozen=True, slots=True)
class ScorePlan:
    """A prefill per continuation, of all its tokens but the last: what it predicts tells how likely that one is.

    Continuations that differ in their last token alone share a prefill. A prefill of the prompt alone tells how likely
    each first token is; with it, a continuation of two tokens needs no log-probabilities of what it was fed.
    """

    prompt_tokens: int
    tails: list[list[int]]
    #: What is fed after the prompt, by prefill.
    heads: list[Head]
    prefills: Sequence[Prefill]

    @classmethod
    def make(cls, prompt: list[int], tails: list[list[int]], adapter: str = "", *, caches: bool) -> ScorePlan:
        """The prefills: that of the prompt alone first, where there is one."""
        # At most 26 choices, so always within vLLM's limit of 128 tokens at once.
        lasts: dict[Head, set[int]] = {}
        for tail in tails:
            lasts.setdefault(_head(tail), set()).add(tail[-1])
        pairs = sum([len(head) == 1 for head in lasts])
        leads = () in lasts or pairs >= LEAD_FROM_PAIRS or (caches and len(prompt) >= LEAD_FROM_TOKENS)
        if leads:
            lasts = {(): {tail[0] for tail in tails}} | {head: ids for head, ids in lasts.items() if head}
        start = len(prompt) + leads
        prefills = [
            Prefill(
                [*prompt, *head],
                next_ids=tuple(sorted(ids)),
                start=start if len(head) > leads else 0,
                adapter=adapter,
            )
            for head, ids in lasts.items()
        ]
        return cls(len(prompt), tails, list(lasts), prefills)

    def read(self, outputs: Sequence[Any]) -> Completion:
        """Log-probabilities in the order of the continuations."""
        said = dict(zip(self.heads, outputs, strict=True))
        return Completion(
            logprobs=tuple([_logprob(tail, said) for tail in self.tails]),
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
    #: The last characters of the text.
    prompt_end: str

    @property
    def prefills(self) -> Sequence[Prefill]:
        return [Prefill(self.prompt, generate=self.request, adapter=self.request.adapter)]

    def read(self, outputs: Sequence[Any]) -> Completion:
        """The texts, in vLLM's order of samples."""
        written = sorted(outputs[0].outputs, key=lambda each: each.index)
        return Completion(
            texts=tuple(Text(each.text, len(each.token_ids), each.finish_reason == "length") for each in written),
            prompt_end=self.prompt_end,
            prompt_tokens=len(self.prompt),
            prefill_tokens=len(self.prompt),
            # Of several texts, vLLM says what the one that ended last had from the cache: most often from the first.
            cached_tokens=_cached(outputs) if len(written) == 1 else 0,
        )


def _head(tail: Sequence[int]) -> Head:
    return tuple(tail[:-1])


def _logprob(tail: list[int], said: Mapping[Head, Any]) -> float:
    """Log-probability of `tail`, from what vLLM said of its head and, where that was asked, of the prompt alone."""
    head = _head(tail)
    found = _next_logprob(said[head], tail[-1])
    if head and () in said:
        found += _next_logprob(said[()], head[0])
        return found + _fed_logprob(said[head], head[1:])
    return found + _fed_logprob(said[head], head)


def _next_logprob(output: Any, token: int) -> float:
    return _at(output.outputs[0].logprobs, 0, token)


def _fed_logprob(output: Any, fed: Head) -> float:
    """Log-probability of the last tokens of a prefill, which are `fed`."""
    if not fed:
        return 0.0
    # Counted from the end: on a GPU, cached positions have no row.
    return sum(_at(output.prompt_logprobs, position, token) for position, token in enumerate(fed, -len(fed)))


def _at(told: Any, position: int, token: int) -> float:
    """Of `token` in row `position` of vLLM's FlatLogprobs, which keeps the rows' tokens one after the other."""
    first, end = told.start_indices[position], told.end_indices[position]
    return float(told.logprobs[told.token_ids.index(token, first, end)])


def _cached(outputs: Sequence[Any]) -> int:
    return sum(output.num_cached_tokens or 0 for output in outputs)
