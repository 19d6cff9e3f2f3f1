"""The scoring pipeline: questions in, verdicts out, one generate call for all. Independent of Celery and Redis.

Modes with follow-up requests (`judge`) make further calls, each again one for the whole batch.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypedDict

from contract.choice_order import Arrangement, arrangements
from contract.errors import EngineDead, EngineError
from contract.prompts import context_source, turns_of, wants_passages
from contract.question import Question
from contract.relevance import sources_in
from contract.spec import Judge, RunSpec
from contract.verdict import Failure, Outcome, Passage, Verdict
from workers.budget import fitted
from workers.engines.base import Completion, Engine, Part, Request, UnexpectedFailure, in_order
from workers.scoring import MODES, FollowUp, Item, Reading

__all__ = [
    "JudgeEngine",
    "Provenance",
    "failed",
    "in_original_labels",
    "no_judges",
    "outcome_of",
    "score_batch",
    "score_in_parts",
]

log = logging.getLogger(__name__)

#: Returns the started engine of a judge on another server.
JudgeEngine: TypeAlias = Callable[[Judge], Engine]


class Provenance(TypedDict, total=False):
    """Fields of a verdict that describe how its question was processed."""

    attempts: int
    batch_id: str
    batch_size: int
    worker: str
    simulated: bool
    queued_ms: float


def no_judges(judge: Judge) -> Engine:
    """`JudgeEngine` for callers without access to judge servers. Raises EngineError."""
    raise EngineError(f"judge servers cannot be reached from here: {judge.server}")


def score_batch(items: Sequence[Item], engine: Engine, judge_engine: JudgeEngine = no_judges) -> list[Verdict]:
    """Return one verdict per item, in order: `score_in_parts`, collected."""
    return in_order(score_in_parts(items, engine, judge_engine), len(items))


def score_in_parts(
    items: Sequence[Item],
    engine: Engine,
    judge_engine: JudgeEngine = no_judges,
    provenances: Sequence[Provenance] = (),
) -> Iterator[list[tuple[int, Verdict]]]:
    """Score `items` in one generate call; yield (position, verdict) pairs in parts, as answers complete.

    `provenances`, if given, has the provenance of each item for its verdict.
    An item that cannot be scored gets a verdict with outcome `failed` and the reason: a failing call is split until the
    culprit is isolated, with `UnexpectedFailure` for an exception that is no EngineError. Raises EngineDead, and
    EngineError if the engine cannot measure prompts with passages.
    """
    started = time.monotonic()
    items = fitted(items, engine)
    provenances = provenances or [Provenance()] * len(items)
    left = {i: _interviews(item) for i, item in enumerate(items)}
    for _ in _ask_all([interview for of_item in left.values() for interview in of_item], engine, judge_engine):
        latency_ms = (time.monotonic() - started) * 1000
        if ended := [i for i, of_item in left.items() if not any(each.requests for each in of_item)]:
            yield [(i, _verdict(items[i], left.pop(i), latency_ms, provenances[i])) for i in ended]


def _interviews(item: Item) -> list[_Interview]:
    return [_Interview(item.spec, each, item.passages) for each in arrangements(item.question, item.spec)]


def _ask_all(interviews: Sequence[_Interview], engine: Engine, judge_engine: JudgeEngine) -> Iterator[None]:
    """Send requests until no interview has any left; yield whenever some may be complete."""
    while waiting := [each for each in interviews if each.requests]:
        for judge, company in _by_judge(waiting):
            try:
                asked = judge_engine(judge) if judge else engine
            except Exception as trouble:  # noqa: BLE001 - an unreachable judge only fails its own questions
                for interview in company:
                    interview.fail("judged", trouble)
            else:
                yield from _ask(asked, company)
    yield


def _ask(engine: Engine, interviews: Sequence[_Interview]) -> Iterator[None]:
    """Make one call with the requests of all `interviews`."""
    places = [(interview, k) for interview in interviews for k in range(len(interview.requests))]
    for part in _generate(engine, [interview.requests[k] for interview, k in places]):
        for position, completion in part:
            interview, k = places[position]
            interview.take(k, completion)
        yield


def failed(question_id: str, failure: Failure, provenance: Provenance) -> Verdict:
    """Return the verdict of a question that got no answer from the model."""
    return Verdict(question_id=question_id, outcome=Outcome.FAILED, error=failure, settled_at=time.time(), **provenance)


def outcome_of(question: Question, reading: Reading) -> Outcome:
    """Return the outcome of a reading, given the question's key."""
    if reading.judged_correct is not None:
        return Outcome.CORRECT if reading.judged_correct else Outcome.WRONG
    if not question.choices:
        return Outcome.ANSWERED
    if reading.choice is None:
        return Outcome.UNANSWERED
    if question.answer is None:
        return Outcome.ANSWERED
    return Outcome.CORRECT if reading.choice in question.right else Outcome.WRONG


@dataclass(slots=True)
class _Interview:
    """One question in one order of its choices, asked until there is a reading or a failure."""

    spec: RunSpec
    arrangement: Arrangement
    passages: Sequence[Passage]
    requests: list[Request] = field(default_factory=list)
    reading: Reading | None = None
    failure: Failure | None = None
    completions: list[Completion] = field(default_factory=list)
    #: Answers by the position of their request, until all have arrived.
    _answers: dict[int, Completion] = field(default_factory=dict)
    #: The judge that gets `requests`; None: the model under test.
    judge: Judge | None = None
    _read: Callable[[Sequence[Completion]], Reading | FollowUp] | None = None

    def __post_init__(self) -> None:
        question, spec, mode = self.arrangement.question, self.spec, MODES[self.spec.mode]
        try:
            self.requests = mode.ask(question, turns_of(question, spec, self.passages), spec)
            # Must not capture `self`: the reference cycle would keep the prompt until garbage collection.
            self._read = lambda completions: mode.read(question, completions, spec)
        except Exception as trouble:  # noqa: BLE001 - one question's error must not fail its batch
            self.fail("asked", trouble)

    def take(self, position: int, completion: Completion) -> None:
        """Record the answer to one of `requests`. The last one completes the round and may lead to further requests."""
        self._answers[position] = completion
        if len(self._answers) == len(self.requests):
            completions = [self._answers[k] for k in range(len(self.requests))]
            self._answers.clear()
            self._complete_round(completions)

    def _complete_round(self, completions: list[Completion]) -> None:
        self.requests = []
        self.completions += completions
        errors = [each.error for each in completions if each.error]
        self.failure = errors[0] if errors else None
        if errors or self._read is None:
            return
        try:
            found = self._read(completions)
        except Exception as trouble:  # noqa: BLE001 - an unreadable answer only fails this question
            self.fail("read", trouble)
            return
        if isinstance(found, FollowUp):
            self.requests, self._read, self.judge = found.requests, found.read, found.judge
        else:
            self.reading = found

    def fail(self, what: str, trouble: Exception) -> None:
        """Give up without a reading."""
        self.requests = []
        shows_where = log.isEnabledFor(logging.DEBUG)  # every question may fail alike
        log.warning("question %s cannot be %s: %s", self.arrangement.question.id, what, trouble, exc_info=shows_where)
        self.failure = Failure.of(trouble)


def _by_judge(interviews: Sequence[_Interview]) -> list[tuple[Judge | None, list[_Interview]]]:
    """Group interviews by the engine they ask: one call each."""
    groups: dict[Judge | None, list[_Interview]] = {}
    for interview in interviews:
        groups.setdefault(interview.judge, []).append(interview)
    return list(groups.items())


def _generate(engine: Engine, requests: Sequence[Request]) -> Iterator[Part]:
    """Make one call; if it fails, retry the halves of what is unanswered, down to the failing request."""
    left = dict(enumerate(requests))
    trouble: Exception = EngineError("the engine returned no answer")
    try:
        for part in engine.answers(requests):
            for position, _ in part:
                del left[position]
            yield part
    except EngineDead:
        raise
    except Exception as raised:  # noqa: BLE001 - whatever a call raises must only fail the culprit
        trouble = raised
    positions = list(left)
    if len(positions) == 1:
        kind = Failure if isinstance(trouble, EngineError) else UnexpectedFailure
        if kind is UnexpectedFailure:
            log.error("a request got no answer", exc_info=trouble)
        yield [(positions[0], Completion(error=kind.of(trouble)))]
    elif positions:
        log.warning("%d of %d requests got no answer, halving them: %s", len(positions), len(requests), trouble)
        middle = len(positions) // 2
        for half in (positions[:middle], positions[middle:]):
            for part in _generate(engine, [left[position] for position in half]):
                yield [(half[k], completion) for k, completion in part]


def _verdict(item: Item, interviews: Sequence[_Interview], latency_ms: float, provenance: Provenance) -> Verdict:
    failures = [each.failure for each in interviews if each.failure]
    completions = [completion for each in interviews for completion in each.completions]
    found: dict[str, Any]
    if failures:
        found = {"outcome": Outcome.FAILED, "error": failures[0]}
    else:
        found = _combined(item.question, [_reading(each) for each in interviews])
    return Verdict.model_validate(  # faster than two dozen keyword arguments, which are repacked at each call level
        {
            "question_id": item.question.id,
            "latency_ms": latency_ms,
            "prompt_tokens": sum([each.prompt_tokens for each in completions]),
            "completion_tokens": sum([text.tokens for each in completions for text in each.texts]),
            "prefill_tokens": sum([each.prefill_tokens for each in completions]),
            "cached_tokens": sum([each.cached_tokens for each in completions]),
            "context_source": context_source(item.question, item.spec, item.passages),
            "passages": item.passages,
            "retrieval_hit": _hit(item),
            "settled_at": time.time(),
            **found,
            **provenance,
        }
    )


def _hit(item: Item) -> bool | None:
    """Whether a passage that answers the question was shown; None if unknown, or if nothing was retrieved."""
    if not wants_passages(item.question, item.spec):
        return None
    sources = sources_in(item.question, item.spec.rag, item.passages)
    return sources.hit(each for each in item.passages if each.shown)


def _reading(interview: _Interview) -> Reading:
    if interview.reading is None:
        raise RuntimeError("an interview without requests, reading or failure")
    return in_original_labels(interview.reading, interview.arrangement)


def in_original_labels(reading: Reading, arrangement: Arrangement) -> Reading:
    """Map the labels in the reading of `arrangement` to those of the question as it was enqueued."""
    if arrangement.as_enqueued:
        return reading
    original = arrangement.original
    scores, unconditional = (
        {original(label): score for label, score in sorted(of_choices.items())}
        for of_choices in (reading.choice_scores, reading.unconditional_scores)
    )
    choice = reading.choice and original(reading.choice)
    return reading._replace(choice=choice, choice_scores=scores, unconditional_scores=unconditional)


def _combined(question: Question, readings: Sequence[Reading]) -> dict[str, Any]:
    """Return the verdict's fields: a single reading as is, several rotations by their most frequent choice.

    The question is only correct if all rotations are.
    """
    shown = readings[0] if len(readings) == 1 else _most_frequent(readings)
    outcome = outcome_of(question, shown)
    rotations: dict[str, Any] = {}
    if len(readings) > 1:
        right = sum(outcome_of(question, each) is Outcome.CORRECT for each in readings)
        rotations = {
            "rotations_right": right,
            "rotations": len(readings),
            "rotation_choices": tuple(each.choice for each in readings),
        }
        if outcome is Outcome.CORRECT and right < len(readings):
            outcome = Outcome.WRONG
    return {
        "outcome": outcome,
        "choice": shown.choice,
        "choice_scores": dict(sorted(shown.choice_scores.items())),
        "unconditional_scores": dict(sorted(shown.unconditional_scores.items())),
        "confidence": shown.confidence,
        "margin": shown.margin,
        "label_mass": shown.label_mass,
        "raw_text": shown.raw_text,
        "rule": shown.rule,
        "truncated": any(each.truncated for each in readings),
        "judge_reason": shown.judge_reason,
        **rotations,
    }


def _most_frequent(readings: Sequence[Reading]) -> Reading:
    """Return the first reading with the most frequent choice."""
    choices = Counter(each.choice for each in readings if each.choice is not None)
    choice = choices.most_common(1)[0][0] if choices else None
    return next(each for each in readings if each.choice == choice or choice is None)
