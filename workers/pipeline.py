"""The scoring pipeline: questions in, verdicts out, one generate call for all. Independent of Celery and Redis.

    Item        a question, its run's spec and its passages
    _Interview  the item in one order of its choices; `circular` runs have one per rotation, all others a single one
    Request     what the mode's `ask` makes of an interview
    Completion  the engine's answer to a request
    Reading     what the mode's `read` makes of an interview's completions
    Verdict     what `workers.verdicts` makes of all readings of an item

A mode may read a `FollowUp` instead, as `judge` does: further requests, which are again sent in one call for the whole
batch.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from contract.choice_order import Arrangement, arrangements
from contract.errors import EngineDead, EngineError
from contract.prompts import turns_of
from contract.spec import Judge, RunSpec
from contract.verdict import Failure, Passage, Verdict
from workers.budget import fitted, without_room
from workers.engines.base import Completion, Engine, Part, Request, UnexpectedFailure, in_order
from workers.reading import Found, Reader, Unread, read_here
from workers.scoring import MODES, FollowUp, Item, Reading
from workers.verdicts import Provenance, in_original_labels, verdict_on

__all__ = ["JudgeEngine", "no_judges", "score_batch", "score_in_parts"]

log = logging.getLogger(__name__)

#: Returns the started engine of a judge on another server.
JudgeEngine: TypeAlias = Callable[[Judge], Engine]


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
    reader: Reader = read_here,
) -> Iterator[list[tuple[int, Verdict]]]:
    """Score `items` in one generate call; yield (position, verdict) pairs in parts, some empty, as answers complete.

    `provenances`, if given, has the provenance of each item for its verdict.

    An item that cannot be scored gets a verdict with the outcome `failed` and the reason. If a call fails, it is split
    until the request at fault is found; an exception that is no EngineError is recorded as an `UnexpectedFailure`.
    Raises EngineDead, and EngineError if the engine cannot measure prompts with passages.
    """
    started = time.monotonic()
    items = fitted(items, engine)
    provenances = provenances or [Provenance()] * len(items)
    refusals = without_room(items, engine)
    #: Position of an item → its interviews, until it has its verdict.
    unfinished = {i: _interviews(item, refusals.get(i)) for i, item in enumerate(items)}
    everyone = [interview for interviews in unfinished.values() for interview in interviews]
    for _ in _ask_all(everyone, engine, judge_engine, reader):
        latency_ms = (time.monotonic() - started) * 1000
        ended = [i for i, interviews in unfinished.items() if not any(each.requests for each in interviews)]
        yield [(i, _verdict(items[i], unfinished.pop(i), latency_ms, provenances[i])) for i in ended]


def _interviews(item: Item, refusal: Exception | None) -> list[_Interview]:
    """Return the interviews of `item`; if it must not be asked, a single one, which has failed with `refusal`."""
    interviews = [_Interview(item.spec, each, item.passages) for each in arrangements(item.question, item.spec)]
    if refusal:
        interviews[0].fail("asked", refusal)
        return interviews[:1]
    return interviews


def _ask_all(
    interviews: Sequence[_Interview], engine: Engine, judge_engine: JudgeEngine, reader: Reader
) -> Iterator[None]:
    """Send requests until no interview has any left; yield whenever some may be complete."""
    while waiting := [each for each in interviews if each.requests]:
        for judge, of_judge in _by_judge(waiting):
            yield from _ask(judge, of_judge, engine, judge_engine, reader)
    yield  # for interviews that failed outside a call: without a request, or without their judge


def _ask(
    judge: Judge | None,
    interviews: Sequence[_Interview],
    engine: Engine,
    judge_engine: JudgeEngine,
    reader: Reader,
) -> Iterator[None]:
    """Make one call with the requests of all `interviews`: to `judge`, if there is one, else to `engine`."""
    try:
        answering = judge_engine(judge) if judge else engine
    except Exception as trouble:  # noqa: BLE001 - an unreachable judge only fails its own questions
        for interview in interviews:
            interview.fail("judged", trouble)
        return
    places = [(interview, k) for interview in interviews for k in range(len(interview.requests))]
    for part in _generate(answering, [interview.requests[k] for interview, k in places]):
        to_read = []
        for position, completion in part:
            interview, k = places[position]
            if unread := interview.receive(k, completion):
                to_read.append((interview, unread))
        for (interview, _), found in zip(to_read, reader([unread for _, unread in to_read]), strict=True):
            interview.conclude(found)
        yield


@dataclass(slots=True)
class _Interview:
    """One question in one order of its choices, asked until there is a reading or a failure."""

    spec: RunSpec
    arrangement: Arrangement
    passages: Sequence[Passage]
    requests: list[Request] = field(default_factory=list)
    reading: Reading | None = None
    failure: Failure | None = None
    #: The answers to all requests so far, also those of earlier steps.
    completions: list[Completion] = field(default_factory=list)
    #: Whether one of its texts filled the model's context; those of a judge do not count.
    context_full: bool = False
    #: Answers to `requests`, by position, until all have arrived.
    _answers: dict[int, Completion] = field(default_factory=dict)
    #: The judge that gets `requests`; None: the model under test.
    judge: Judge | None = None
    #: Reads the answers, if `requests` are those of a `FollowUp`; otherwise, the mode does.
    _follow_up: Callable[[Sequence[Completion]], Reading | FollowUp] | None = None

    def __post_init__(self) -> None:
        question, spec, mode = self.arrangement.question, self.spec, MODES[self.spec.mode]
        try:
            self.requests = mode.ask(question, turns_of(question, spec, self.passages), spec)
        except Exception as trouble:  # noqa: BLE001 - one question's error must not fail its batch
            self.fail("asked", trouble)

    def receive(self, position: int, completion: Completion) -> Unread | None:
        """Record the answer to the request at `position`; with the last one, return all of them, which are to be read.

        None while some are missing, and if one of them is an error: then the interview has failed.
        """
        self._answers[position] = completion
        if len(self._answers) < len(self.requests):
            return None
        completions = [self._answers[k] for k in range(len(self.requests))]
        self._answers.clear()
        self.requests = []
        self.completions += completions
        if self._follow_up is None:
            self.context_full = any(text.context_full for each in completions for text in each.texts)
        errors = [each.error for each in completions if each.error]
        self.failure = errors[0] if errors else None
        return None if errors else Unread(self.arrangement.question, completions, self.spec, self._follow_up)

    def conclude(self, found: Found) -> None:
        """Record what was read, which may lead to further requests."""
        if isinstance(found, Exception):
            self.fail("read", found)
        elif isinstance(found, FollowUp):
            self.requests, self._follow_up, self.judge = found.requests, found.read, found.judge
        else:
            self.reading = found

    def fail(self, done: str, trouble: Exception) -> None:
        """Give up without a reading. `done` is what cannot be done with the question, for the log, such as `asked`."""
        self.requests = []
        traceback = log.isEnabledFor(logging.DEBUG)  # otherwise too much: every question may fail for the same reason
        log.warning("question %s cannot be %s: %s", self.arrangement.question.id, done, trouble, exc_info=traceback)
        self.failure = Failure.of(trouble)


def _by_judge(interviews: Sequence[_Interview]) -> list[tuple[Judge | None, list[_Interview]]]:
    """Group interviews by the judge that gets their requests; each group is one call."""
    groups: dict[Judge | None, list[_Interview]] = {}
    for interview in interviews:
        groups.setdefault(interview.judge, []).append(interview)
    return list(groups.items())


def _generate(engine: Engine, requests: Sequence[Request]) -> Iterator[Part]:
    """Make one call. If it fails, call again with each half of the unanswered requests, down to the one at fault."""
    unanswered = dict(enumerate(requests))
    trouble: Exception = EngineError("the engine returned no answer")
    try:
        for part in engine.answers(requests):
            for position, _ in part:
                del unanswered[position]
            yield part
    except EngineDead:
        raise
    except Exception as raised:  # noqa: BLE001 - whatever a call raises must only fail the culprit
        trouble = raised
    positions = list(unanswered)
    if len(positions) == 1:
        kind = Failure if isinstance(trouble, EngineError) else UnexpectedFailure
        if kind is UnexpectedFailure:
            log.error("a request got no answer", exc_info=trouble)
        yield [(positions[0], Completion(error=kind.of(trouble)))]
    elif positions:
        log.warning("%d of %d requests got no answer, halving them: %s", len(positions), len(requests), trouble)
        middle = len(positions) // 2
        for half in (positions[:middle], positions[middle:]):
            for part in _generate(engine, [unanswered[position] for position in half]):
                yield [(half[k], completion) for k, completion in part]


def _verdict(item: Item, interviews: Sequence[_Interview], latency_ms: float, provenance: Provenance) -> Verdict:
    failures = [each.failure for each in interviews if each.failure]
    completions = [completion for each in interviews for completion in each.completions]
    found = failures[0] if failures else [_reading(each) for each in interviews]
    context_full = any(each.context_full for each in interviews)
    return verdict_on(item, found, completions, latency_ms, provenance, context_full=context_full)


def _reading(interview: _Interview) -> Reading:
    if interview.reading is None:
        raise RuntimeError("an interview without requests, reading or failure")
    return in_original_labels(interview.reading, interview.arrangement)
