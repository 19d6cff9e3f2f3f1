"""Planning of the cheapest exact set of prefills for a request, and what they tell of it. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from contract.errors import RequestRejected
from workers.engines.base import Completion, GenerateRequest, Request, Text
from workers.engines.encoding import Encoded
from workers.engines.prefill import Prefill, Scores

__all__ = [
    "LEAD_FROM_PAIRS",
    "LEAD_FROM_TOKENS",
    "Plan",
    "make_plan",
    "needed_tokens",
]

#: All tokens of a continuation but the last: those fed after the prompt.
Head: TypeAlias = tuple[int, ...]
#: A prompt of at least this many tokens is first prefilled by itself, and its continuations reuse it from the cache.
#: Requesting log-probabilities of prompt tokens makes a prefill 50 % slower on a CPU, as each needs the distribution
#: over the vocabulary. With the prompt cached, only the part beyond its last full cache block is recomputed: half a
#: block on average.
LEAD_FROM_TOKENS = 64
#: So is a shorter prompt, if it has at least this many two-token continuations: each of them saves those 50 %.
LEAD_FROM_PAIRS = 3
#: Characters kept from a prompt's end: enough for the tag with which some templates open the model's reasoning.
ENDING = 40


class Plan(Protocol):
    """The prefills for one request, and how their outputs become its completion."""

    @property
    def prefills(self) -> Sequence[Prefill]:
        """The prefills, in the order in which `read` expects what was told for them."""

    def read(self, told: Sequence[Any]) -> Completion:
        """Return the completion: from the `Scores` of each prefill, or from vLLM's output for one that generates."""


def needed_tokens(request: Request, encoded: Encoded) -> int:
    """Return the tokens of context that `request` needs with the longest possible answer."""
    if isinstance(request, GenerateRequest):
        return len(encoded.prompt) + request.sampling.max_tokens
    # A choice's last token is not fed, but vLLM always generates one token, which takes its place.
    return len(encoded.prompt) + max(map(len, encoded.tails))


def make_plan(request: Request, encoded: Encoded, limit: int, *, caches: bool) -> Plan | RequestRejected:
    """Return the plan for `request`; `limit` is the model's context in tokens, `caches` whether prefixes are cached.

    A request that does not fit is rejected with the token counts, never truncated.
    """
    if not encoded.prompt or any(not tail for tail in encoded.tails):
        return RequestRejected("The prompt or a choice has no tokens.", hint="Check the prompt template.")
    prompt = len(encoded.prompt)
    hint = "Raise vllm_args.max_model_len if the model allows it, or shorten the prompt."
    if isinstance(request, GenerateRequest):
        if prompt >= limit:
            return RequestRejected(f"Prompt of {prompt} tokens fills the context of {limit}.", hint=hint)
        return TextPlan(encoded.prompt, request, encoded.text[-ENDING:])
    if needed_tokens(request, encoded) > limit:
        longest = max(map(len, encoded.tails))
        return RequestRejected(
            f"Prompt of {prompt} tokens and longest choice of {longest} exceed the context of {limit}.", hint=hint
        )
    return ScorePlan.make(encoded.prompt, encoded.tails, request.adapter, caches=caches)


@dataclass(frozen=True, slots=True)
class ScorePlan:
    """One prefill per continuation, with all its tokens but the last, whose probability is the model's prediction.

    Continuations that differ only in their last token share a prefill. A prefill of the prompt alone gives the
    probabilities of all first tokens; with it, a two-token continuation needs no log-probabilities of fed tokens.
    """

    prompt_tokens: int
    tails: list[list[int]]
    #: Tokens fed after the prompt, by prefill.
    heads: list[Head]
    prefills: Sequence[Prefill]

    @classmethod
    def make(cls, prompt: list[int], tails: list[list[int]], adapter: str = "", *, caches: bool) -> ScorePlan:
        """Plan the prefills; that of the prompt alone, if any, comes first."""
        # Tokens that may follow each head; at most 26 choices, so always within vLLM's limit of 128 tokens per request.
        next_ids: dict[Head, set[int]] = {}
        for tail in tails:
            next_ids.setdefault(_head(tail), set()).add(tail[-1])
        pairs = sum([len(head) == 1 for head in next_ids])
        leads = () in next_ids or pairs >= LEAD_FROM_PAIRS or (caches and len(prompt) >= LEAD_FROM_TOKENS)
        if leads:
            next_ids = {(): {tail[0] for tail in tails}} | {head: ids for head, ids in next_ids.items() if head}
        # The prefill of the prompt alone tells the first token of every head, so that the others need not.
        told = 1 if leads else 0
        prefills = [
            Prefill(
                [*prompt, *head],
                next_ids=tuple(sorted(ids)),
                start=len(prompt) + told if len(head) > told else 0,
                adapter=adapter,
            )
            for head, ids in next_ids.items()
        ]
        return cls(len(prompt), tails, list(next_ids), prefills)

    def read(self, told: Sequence[Scores]) -> Completion:
        """Return log-probabilities in the order of the continuations."""
        by_head = dict(zip(self.heads, told, strict=True))
        tokens = sum(len(each.token_ids) for each in self.prefills)
        return Completion(
            logprobs=tuple([self._logprob(tail, by_head) for tail in self.tails]),
            token_counts=tuple(map(len, self.tails)),
            prompt_tokens=self.prompt_tokens,
            prefill_tokens=tokens,
            # What was computed for tokens in cached blocks can exceed what these saved.
            cached_tokens=max(0, tokens - sum(each.computed_tokens for each in told)),
        )

    def _logprob(self, tail: list[int], by_head: Mapping[Head, Scores]) -> float:
        """Return the log-probability of `tail`, whose first token the prefill of the prompt alone tells, if any."""
        of_tail = by_head[_head(tail)]
        of_first = by_head.get((), of_tail)
        rest = enumerate(tail[1:], self.prompt_tokens + 1)
        return of_first.of(self.prompt_tokens, tail[0]) + sum(of_tail.of(at, token) for at, token in rest)


@dataclass(frozen=True, slots=True)
class TextPlan:
    """One prefill that generates the requested number of texts."""

    prompt: list[int]
    request: GenerateRequest
    #: The last characters of the prompt text.
    prompt_end: str

    @property
    def prefills(self) -> Sequence[Prefill]:
        return [Prefill(self.prompt, generate=self.request, adapter=self.request.adapter)]

    def read(self, told: Sequence[Any]) -> Completion:
        """Return the texts, in vLLM's order of samples."""
        (output,) = told
        written = sorted(output.outputs, key=lambda each: each.index)
        # With several texts, each has a prefill, of which vLLM tells the cached tokens of the last to finish alone.
        alone = len(written) == 1
        most = self.request.sampling.max_tokens
        return Completion(
            texts=tuple(
                Text(
                    each.text,
                    len(each.token_ids),
                    truncated=each.finish_reason == "length",
                    context_full=each.finish_reason == "length" and len(each.token_ids) < most,
                    stopped=isinstance(each.stop_reason, str),
                )
                for each in written
            ),
            prompt_end=self.prompt_end,
            prompt_tokens=len(self.prompt),
            prefill_tokens=len(self.prompt) if alone else 0,
            cached_tokens=(output.num_cached_tokens or 0) if alone else 0,
        )


def _head(tail: Sequence[int]) -> Head:
    return tuple(tail[:-1])
