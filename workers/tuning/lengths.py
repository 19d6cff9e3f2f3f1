"""The context length that questions need, in tokens."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from contract.errors import InputError
from workers.budget import capped
from workers.engines.encoding import Encoded, PromptEncoder
from workers.engines.prefill_plan import needed_tokens
from workers.scoring import Item, requests_of
from workers.scoring.judge import grading_prompt
from workers.tuning.trials import all_marked

__all__ = ["Lengths", "lengths"]

#: Token counts are rounded up to a multiple of this, as KV caches are allocated in blocks.
BLOCK = 64
#: As long as the longest mark that is prepended to a prompt.
LONGEST_MARK = "Again 99999.\nTrial 999."
#: Upper estimate of the tokens that tell a judge what was wrong with its answer when it is asked again.
COMPLAINT_TOKENS = 64


@dataclass(frozen=True, slots=True)
class Lengths:
    """Tokens of context that questions need: for the longest prompt with its continuation or its generated text."""

    questions: int
    median: int
    p95: int
    longest: int
    #: The context that is tried and chosen, and the number of questions that exceed it with all their passages.
    context: int
    beyond: int
    #: The context of the deploy file; 0 if it names none.
    given: int = 0


def lengths(items: Iterable[Item], encoder: PromptEncoder, most: int | None = None, given: int = 0) -> Lengths:
    """Measure the questions in tokens, including passages and answer. Raises InputError if there are none.

    The context is the one `given`, or what holds all of them, up to `most` tokens, if that is more: a larger one costs
    an engine nothing, and in a smaller one questions fail, also those of other runs.
    """
    measured = [(_length(item, encoder), item) for item in items]
    if not measured:
        raise InputError("There are no questions to tune for.")
    found = sorted(length for length, _ in measured)
    _, longest = max(measured, key=lambda each: each[0])
    wanted = _rounded_up(max(_length(each, encoder) for each in all_marked([longest], LONGEST_MARK)))
    context = max(given, wanted if most is None else min(wanted, most))
    return Lengths(
        questions=len(found),
        median=found[len(found) // 2],
        p95=found[math.ceil(0.95 * len(found)) - 1],
        longest=found[-1],
        context=context,
        beyond=sum(each > context for each in found),
        given=given,
    )


def _length(item: Item, encoder: PromptEncoder) -> int:
    item = capped(item, encoder.count)
    requests = list(requests_of(item))
    longest = _grading_length(item, encoder)
    for request, encoded in zip(requests, encoder.encode(requests), strict=True):
        if not isinstance(encoded, Encoded):
            raise InputError(f"question {item.question.id}: {encoded}")
        longest = max(longest, needed_tokens(request, encoded))
    return longest


def _grading_length(item: Item, encoder: PromptEncoder) -> int:
    """Return the tokens needed for self-grading: the answer in the grading prompt, plus every allowed grade."""
    spec, judge = item.spec, item.spec.judge
    if judge is None or judge.server or spec.sampling is None or item.question.answer is None:
        return 0
    (shown,) = encoder.count([grading_prompt(item.question, judge, "")])
    return shown + spec.sampling.max_tokens + judge.max_tokens * (judge.retries + 1) + COMPLAINT_TOKENS * judge.retries


def _rounded_up(tokens: int) -> int:
    return -(-tokens // BLOCK) * BLOCK
