"""The scoring pipeline: questions in, verdicts out, one generate call for all. Independent of Celery and Redis.

Modes with follow-up requests (`judge`) make further calls, each again one for the whole batch.
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
    An item that cannot be scored gets a verdict with outcome `failed` and the reason: a failing call is split until the
    culprit is isolated, with `UnexpectedFailure` for an exception that is no EngineError. Raises EngineDead, and
    EngineError if the engine cannot measure prompts with passages.
    """
    started = time.monotonic()
    items = fitted(items, engine)
    provenances = provenances or [Provenance()] * len(items)
    refusals = without_room(items, engine)
    left = {i: _interviews(item, refusals.get(i)) for i, item in enumerate(items)}
    for _ in _ask_all([interview for of_item in left.values() for interview in of_item], engine, judge_engine, reader):
        latency_ms = (time.monotonic() - started) * 1000
        ended = [i for i, of_item in left.items() if not any(each.requests for each in of_item)]
        yield [(i, _verdict(items[i], left.pop(i), latency_ms, provenances[i])) for i in ended]


def _interviews(item: Item, refusal: Exception | None) -> list[_Interview]:
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
        for judge, company in _by_judge(waiting):
            yield from _ask(judge, company, engine, judge_engine, reader)
    yield


def _ask(
    judge: Judge | None,
    interviews: Sequence[_Interview],
    engine: Engine,
    judge_engine: JudgeEngine,
    reader: Reader,
) -> Iterator[None]:
    """Make one call with the requests of all `interviews`: to `judge`, if there is one, else to `engine`."""
    try:
        asked = judge_engine(judge) if judge else engine
    except Exception as trouble:  # noqa: BLE001 - an unreachable judge only fails its own questions
        for interview in interviews:
            interview.fail("judged", trouble)
        return
    places = [(interview, k) for interview in interviews for k in range(len(interview.requests))]
    for part in _generate(asked, [interview.requests[k] for interview, k in places]):
        rounds = []
        for position, completion in part:
            interview, k = places[position]
            if unread := interview.take(k, completion):
                rounds.append((interview, unread))
        for (interview, _), found in zip(rounds, reader([unread for _, unread in rounds]), strict=True):
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
    completions: list[Completion] = field(default_factory=list)
    #: Answers by the position of their request, until all have arrived.
    _answers: dict[int, Completion] = field(default_factory=dict)
    #: The judge that gets `requests`; None: the model under test.
    judge: Judge | None = None
    #: What reads the answers, if `requests` are a further step of the mode.
    _follow_up: Callable[[Sequence[Completion]], Reading | FollowUp] | None = None

    def __post_init__(self) -> None:
        question, spec, mode = self.arrangement.question, self.spec, MODES[self.spec.mode]
        try:
            self.requests = mode.ask(question, turns_of(question, spec, self.passages), spec)
        except Exception as trouble:  # noqa: BLE001 - one question's error must not fail its batch
            self.fail("asked", trouble)

    def take(self, position: int, completion: Completion) -> Unread | None:
        """Record the answer to one of `requests`; return all answers, to be read, once there are as many."""
        self._answers[position] = completion
        if len(self._answers) < len(self.requests):
            return None
        completions = [self._answers[k] for k in range(len(self.requests))]
        self._answers.clear()
        self.requests = []
        self.completions += completions
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
    found = failures[0] if failures else [_reading(each) for each in interviews]
    return verdict_on(item, found, completions, latency_ms, provenance)


def _reading(interview: _Interview) -> Reading:
    if interview.reading is None:
        raise RuntimeError("an interview without requests, reading or failure")
    return in_original_labels(interview.reading, interview.arrangement)
