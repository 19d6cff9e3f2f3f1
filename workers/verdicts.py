"""Verdicts: from what a mode read, in each order of the choices, to the outcome of the question."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypedDict

from pydantic import TypeAdapter

from contract.choice_order import Arrangement
from contract.marking import hit, mark, mark_rotations
from contract.prompts import context_source
from contract.question import Question
from contract.verdict import Failure, Outcome, Verdict
from workers.engines.base import Completion
from workers.scoring import Item, Reading
from workers.scoring.judge import UNGRADED

__all__ = ["Provenance", "combined", "failed", "in_original_labels", "outcome_of", "verdict_on"]

#: Makes a Verdict of its fields by pydantic's validator, without the detour over `Verdict(…)`, which takes 1.4 times as
#: long: every question of a run passes through here.
_verdict_of: Callable[[dict[str, Any]], Verdict] = TypeAdapter(Verdict).validator.validate_python


class Provenance(TypedDict, total=False):
    """Fields of a verdict that describe how its question was processed."""

    attempts: int
    batch_id: str
    batch_size: int
    worker: str
    simulated: bool
    queued_ms: float


def failed(question_id: str, failure: Failure, provenance: Provenance) -> Verdict:
    """Return the verdict of a question that got no answer from the model."""
    return Verdict(question_id=question_id, outcome=Outcome.FAILED, error=failure, settled_at=time.time(), **provenance)


def verdict_on(
    item: Item,
    found: Sequence[Reading] | Failure,
    completions: Sequence[Completion],
    latency_ms: float,
    provenance: Provenance,
    *,
    context_full: bool,
) -> Verdict:
    """Return the verdict on `item`. `found` is a reading for each order of its choices, or why there is none.

    `completions` are all answers to its requests, whose tokens are counted. `context_full` is whether a text that it
    was read from filled the model's context.
    """
    prompt = generated = prefill = cached = 0
    for each in completions:
        prompt += each.prompt_tokens
        prefill += each.prefill_tokens
        cached += each.cached_tokens
        generated += sum([text.tokens for text in each.texts])
    fields: dict[str, Any]
    if isinstance(found, Failure):
        fields = {"outcome": Outcome.FAILED, "error": found}
    else:
        fields = combined(item.question, found)
    fields |= provenance
    fields |= {
        "question_id": item.question.id,
        "prompt_tokens": prompt,
        "completion_tokens": generated,
        "prefill_tokens": prefill,
        "cached_tokens": cached,
        "latency_ms": latency_ms,
        "settled_at": time.time(),
    }
    if fields.get("truncated"):
        fields["context_full"] = context_full
    if item.spec.rag or item.spec.use_context_field:
        fields |= {
            "context_source": context_source(item.question, item.spec, item.passages),
            "passages": item.passages,
            "retrieval_hit": hit(item.question, item.spec, item.passages),
        }
    return _verdict_of(fields)


def outcome_of(question: Question, reading: Reading) -> Outcome:
    """Return the outcome of a reading, given the question's key."""
    if reading.judged_correct is not None:
        return Outcome.CORRECT if reading.judged_correct else Outcome.WRONG
    if not question.choices:
        return Outcome.ANSWERED
    if reading.choice is None and reading.rule == UNGRADED:
        return Outcome.ANSWERED
    return mark(question, reading.choice)


def combined(question: Question, readings: Sequence[Reading]) -> dict[str, Any]:
    """Return the fields of the verdict that follow from `readings`: one, or one for each rotation of the choices.

    Of several, the first one with the most frequent choice is shown. The question is only correct if all of them are.
    """
    shown = readings[0] if len(readings) == 1 else _most_frequent(readings)
    outcome = outcome_of(question, shown)
    fields = shown._asdict()
    del fields["judged_correct"]  # part of the outcome; all others are fields of the verdict
    if len(readings) > 1:
        outcomes = [outcome_of(question, each) for each in readings]
        right = outcomes.count(Outcome.CORRECT)
        # A judge also grades answers without a choice: the one that is shown may be none, although there are others.
        answered = next((each for each in (outcome, *outcomes) if each is not Outcome.UNANSWERED), outcome)
        outcome = mark_rotations(answered, right, len(readings))
        fields |= {
            "truncated": any(each.truncated for each in readings),
            "rotations_right": right,
            "rotations": len(readings),
            "rotation_choices": tuple(each.choice for each in readings),
        }
    fields["outcome"] = outcome
    return fields


def _most_frequent(readings: Sequence[Reading]) -> Reading:
    """Return the first reading with the most frequent choice; the first of all if none has a choice."""
    choices = Counter(each.choice for each in readings if each.choice is not None)
    choice = choices.most_common(1)[0][0] if choices else None
    return next(each for each in readings if each.choice == choice)


def in_original_labels(reading: Reading, arrangement: Arrangement) -> Reading:
    """Map the labels in the reading of `arrangement` to those of the question as it was enqueued."""
    if arrangement.as_enqueued:
        return reading
    original = arrangement.original
    by_label: dict[str, Any] = {
        name: dict(sorted((original(label), score) for label, score in found.items()))
        for name, found in reading._asdict().items()
        if isinstance(found, Mapping)
    }
    return reading._replace(choice=reading.choice and original(reading.choice), **by_label)
