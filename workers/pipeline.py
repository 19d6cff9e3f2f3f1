"""The heart: questions in, verdicts out, one generate call for all of them. Knows neither Celery nor Redis."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass

from contract.errors import EngineDead, EngineError
from contract.prompts import render
from contract.question import Question
from contract.spec import RunSpec
from contract.verdict import Failure, Outcome, Verdict
from workers.engines.base import Completion, Engine, Request
from workers.scoring import MODES, Reading

__all__ = ["Item", "failed", "score_batch"]

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Item:
    """A question to be scored as its run's spec says. Items of one batch may belong to different runs."""

    question: Question
    spec: RunSpec


def score_batch(items: Sequence[Item], engine: Engine) -> list[Verdict]:
    """One verdict per item, in order, from one generate call.

    What cannot be scored becomes a verdict with outcome `failed` and the reason. Raises EngineDead, and nothing else
    that an engine can raise: a call that fails is split until the culprit stands alone.
    """
    started = time.monotonic()
    asked = [_ask(item) for item in items]
    flat = [request for requests in asked if isinstance(requests, list) for request in requests]
    completions = iter(_generate(engine, flat))
    verdicts = []
    for item, requests in zip(items, asked, strict=True):
        if isinstance(requests, Failure):
            verdicts.append(failed(item.question, requests))
        else:
            verdicts.append(_verdict(item, [next(completions) for _ in requests]))
    latency_ms = (time.monotonic() - started) * 1000
    return [verdict.model_copy(update={"latency_ms": latency_ms}) for verdict in verdicts]


def failed(question: Question, failure: Failure) -> Verdict:
    """The verdict of a question that the model was never heard on."""
    return Verdict(question_id=question.id, outcome=Outcome.FAILED, error=failure)


def _ask(item: Item) -> list[Request] | Failure:
    context = item.question.context if item.spec.use_context_field else None
    try:
        prompt = render(item.spec.prompt, item.question, context)
        return MODES[item.spec.mode].ask(item.question, prompt, item.spec)
    except Exception as trouble:  # noqa: BLE001 - one question's trouble must not cost its batch
        log.warning("question %s cannot be asked: %s", item.question.id, trouble)
        return Failure(type=type(trouble).__name__, message=str(trouble))


def _generate(engine: Engine, requests: list[Request]) -> list[Completion]:
    """One call; if it fails as a whole, its halves, down to the request that cannot be answered."""
    if not requests:
        return []
    try:
        return engine.generate(requests)
    except EngineDead:
        raise
    except EngineError as trouble:
        if len(requests) == 1:
            return [Completion(error=Failure(type=type(trouble).__name__, message=str(trouble)))]
        log.warning("a call of %d requests failed, halving it: %s", len(requests), trouble)
        middle = len(requests) // 2
        return _generate(engine, requests[:middle]) + _generate(engine, requests[middle:])


def _verdict(item: Item, completions: list[Completion]) -> Verdict:
    error = next((each.error for each in completions if each.error), None)
    if error is not None:
        return failed(item.question, error)
    try:
        reading = MODES[item.spec.mode].read(item.question, completions, item.spec)
    except Exception as trouble:  # noqa: BLE001 - an unreadable answer is this question's failure alone
        log.warning("the answer to question %s cannot be read: %s", item.question.id, trouble)
        return failed(item.question, Failure(type=type(trouble).__name__, message=str(trouble)))
    return Verdict(
        question_id=item.question.id,
        outcome=_outcome(item.question, reading),
        choice=reading.choice,
        choice_scores=reading.choice_scores,
        confidence=reading.confidence,
        margin=reading.margin,
        label_mass=reading.label_mass,
        raw_text=reading.raw_text,
        rule=reading.rule,
        prompt_tokens=sum(each.prompt_tokens for each in completions),
        completion_tokens=0,
    )


def _outcome(question: Question, reading: Reading) -> Outcome:
    if reading.choice is None:
        return Outcome.UNANSWERED
    if question.answer is None:
        return Outcome.ANSWERED
    return Outcome.CORRECT if reading.choice == question.answer else Outcome.WRONG
