"""What context questions need of a model, in tokens."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from contract.errors import InputError
from workers.budget import capped
from workers.engines.encoding import Encoded, PromptEncoder
from workers.pipeline import Item
from workers.scoring import requests_of
from workers.scoring.judge import grading_prompt
from workers.tuning.trials import all_marked

__all__ = ["Lengths", "lengths"]

#: Token counts are rounded up to this, as caches are kept in blocks.
BLOCK = 64
#: As long as the longest mark that is put before a prompt.
LONGEST_MARK = "Again 99999.\nTrial 999."
#: Tokens by which a judge is told, before it is asked again, what was wrong with its answer.
COMPLAINT_TOKENS = 64


@dataclass(frozen=True, slots=True)
class Lengths:
    """Tokens that questions need of the model's context: the longest prompt with its continuation, or its text."""

    questions: int
    median: int
    p95: int
    longest: int
    #: The context that is tried and chosen, and the questions that it does not hold with all their passages.
    context: int
    beyond: int


def lengths(items: Iterable[Item], encoder: PromptEncoder, most: int | None = None) -> Lengths:
    """How long the questions are in tokens, passages and answer included. Raises InputError where none can be asked.

    The context holds all of them, for a larger one costs an engine nothing and a smaller one fails questions; but it
    has no more than `most` tokens.
    """
    measured = [(_length(item, encoder), item) for item in items]
    if not measured:
        raise InputError("There is no question to tune by.")
    found = sorted(length for length, _ in measured)
    _, longest = max(measured, key=lambda each: each[0])
    wanted = _rounded_up(max(_length(each, encoder) for each in all_marked([longest], LONGEST_MARK)))
    context = wanted if most is None else min(wanted, most)
    return Lengths(
        questions=len(found),
        median=found[len(found) // 2],
        p95=found[math.ceil(0.95 * len(found)) - 1],
        longest=found[-1],
        context=context,
        beyond=sum(each > context for each in found),
    )


def _length(item: Item, encoder: PromptEncoder) -> int:
    item = capped(item, encoder.count)
    longest, spec = 0, item.spec
    for encoded in encoder.encode(list(requests_of(item))):
        if not isinstance(encoded, Encoded):
            raise InputError(f"question {item.question.id}: {encoded}")
        answer = spec.sampling.max_tokens if spec.sampling else max(map(len, encoded.tails), default=0) + 1
        longest = max(longest, len(encoded.prompt) + answer)
    return max(longest, _grading_length(item, encoder))


def _grading_length(item: Item, encoder: PromptEncoder) -> int:
    """Where the model grades itself: the answer in the grading prompt, and as many grades as it may be asked for."""
    spec, judge = item.spec, item.spec.judge
    if judge is None or judge.server or spec.sampling is None or item.question.answer is None:
        return 0
    (shown,) = encoder.count([grading_prompt(item.question, judge, "")])
    return shown + spec.sampling.max_tokens + judge.max_tokens * (judge.retries + 1) + COMPLAINT_TOKENS * judge.retries


def _rounded_up(tokens: int) -> int:
    return -(-tokens // BLOCK) * BLOCK
