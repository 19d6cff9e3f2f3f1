"""Definition of a scoring mode: two pure functions around a generate call."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from contract.question import Question
from contract.spec import Judge, RunSpec
from contract.turns import Turns
from contract.verdict import Passage
from workers.engines.base import Completion, Request

__all__ = ["FollowUp", "Item", "Reading", "ScoringMode", "compare"]


class Item(NamedTuple):
    """A question to be scored as specified by its run. Items of one batch may belong to different runs."""

    question: Question
    spec: RunSpec
    #: Retrieved passages, best first.
    passages: tuple[Passage, ...] = ()


class Reading(NamedTuple):
    """The result that a mode reads from the completions; the fields are Verdict's, and mappings are by label."""

    choice: str | None
    rule: str
    choice_scores: Mapping[str, float] = {}
    unconditional_scores: Mapping[str, float] = {}
    choice_tokens: Mapping[str, int] = {}
    confidence: float | None = None
    margin: float | None = None
    label_mass: float | None = None
    raw_text: str = ""
    truncated: bool = False
    #: Whether the answer is correct, if that is not decided by comparing `choice` with the key.
    judged_correct: bool | None = None
    judge_reason: str = ""


@dataclass(frozen=True, slots=True)
class FollowUp:
    """A further step before there is a reading: requests for the batch's next generate call, and how to read them."""

    requests: list[Request]
    read: Callable[[Sequence[Completion]], Reading | FollowUp]
    #: The judge whose engine gets the requests; None: the same engine as before.
    judge: Judge | None = None


class ScoringMode(NamedTuple):
    """`ask` turns a question and its prompt into requests, `read` turns their completions into a reading."""

    ask: Callable[[Question, Turns, RunSpec], list[Request]]
    read: Callable[[Question, Sequence[Completion], RunSpec], Reading | FollowUp]


def compare(scores: dict[str, float], rule: str, label_mass: float | None = None) -> Reading:
    """Return a reading that chooses the highest of `scores` (label → log-probability or similar, in nats).

    Confidence is the softmax share of the best score. Of equal scores the first label wins. Raises ValueError for a NaN
    score, for one of infinity, and if no choice is possible: an engine that answers NaN, or minus infinity for all, has
    not answered, and the first label would be a guess.
    """
    if any(map(math.isnan, scores.values())):
        raise ValueError(f"the engine returned NaN: {scores}")
    best, second, *_ = sorted(scores, key=scores.__getitem__, reverse=True)  # a stable sort
    highest = scores[best]
    if math.isinf(highest):
        why = "the engine considers no choice possible" if highest < 0 else "a choice cannot be compared"
        raise ValueError(f"{why}: {scores}")
    share = 1.0 / sum([math.exp(score - highest) for score in scores.values()])
    return Reading(
        choice=best,
        rule=rule,
        choice_scores=scores,
        confidence=share,
        margin=highest - scores[second],
        label_mass=label_mass,
    )
