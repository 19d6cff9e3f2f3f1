"""Requests to a server run beside each other, within its limits, and answers are given as they come."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass
from typing import Any

import pytest

from contract.errors import EngineDead
from contract.mode import Mode
from contract.spec import Sampling
from contract.turns import one_turn
from tests.support import PATIENCE_S, make_questions, make_spec, wait_until
from tests.unit.workers.engines.openai.server import CHOICES, LETTERS, VOCABULARY, WRITE, Script, started, weigh
from workers.engines.base import Completion, GenerateRequest, Request
from workers.engines.openai.asking import Asker, PartialScore
from workers.engines.openai.connection import RateLimiter
from workers.pipeline import score_batch
from workers.scoring import Item

pytestmark = pytest.mark.usefixtures("short_pauses")


def test_a_call_that_asks_for_nothing_lets_no_other_call_in() -> None:
    told: list[str] = []
    with started(Script()) as engine:
        engine.room_came = lambda: told.append("room")
        assert list(engine.answers([])) == []
        assert told == []
        list(engine.answers([WRITE]))
    assert told, "one request leaves room beside it"


def test_no_more_requests_are_under_way_than_the_server_may_be_asked() -> None:
    script = Script()
    with started(script, concurrency=3) as engine:
        engine.generate([WRITE] * 40)
    assert 1 <= script.most_at_once <= 3


def test_requests_are_spread_over_the_minute_that_the_limit_speaks_of() -> None:
    now, slept = [100.0], []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        now[0] += seconds

    rate_limiter = RateLimiter(30, lambda: now[0], sleep)
    for _ in range(4):
        rate_limiter.wait()
    assert slept == [2.0, 2.0, 2.0]
    now[0] += 60
    rate_limiter.wait()
    assert len(slept) == 3, "what was not used is not owed"


def test_answers_are_given_while_a_slow_one_is_awaited() -> None:
    script = Script(slow_text="Take your time.")
    asked = [GenerateRequest(one_turn(text), Sampling(max_tokens=9)) for text in ("One.", "Take your time.", "Three.")]
    with started(script, concurrency=3) as engine:
        engine.settings = engine.settings.model_copy(update={"settle_every_s": 0.2})
        parts = engine.answers(asked)
        early: list[int] = []
        while len(early) < 2:  # both are quick, and may be told of one after the other
            early += [i for i, _ in next(parts)]
        script.released.set()
        late = [i for part in parts for i, _ in part]
    assert (sorted(early), late) == ([0, 2], [1])


def test_a_score_that_lacks_nothing_is_told_before_the_other_choices_are_weighed() -> None:
    script = Script()
    likeliest = max(VOCABULARY, key=lambda each: weigh(LETTERS.prompt, each))
    with started(script) as engine:
        engine.settings = engine.settings.model_copy(update={"settle_every_s": PATIENCE_S})
        parts = engine.answers([CHOICES, LETTERS._replace(continuations=(likeliest,))])
        assert [i for i, _ in next(parts)] == [1]
        assert len(script.asked) == 2
        assert [i for part in parts for i, _ in part] == [0]


def test_an_answer_of_the_server_that_completes_no_score_is_progress_all_the_same() -> None:
    """Else a worker is taken for hung while its server answers steadily, if a limit of requests makes a batch long."""
    with started(Script()) as engine:
        engine.settings = engine.settings.model_copy(update={"settle_every_s": PATIENCE_S})
        first, *later = engine.answers([CHOICES, CHOICES])
    assert first == []
    assert sorted(i for part in later for i, _ in part) == [0, 1]


@dataclass
class Revoking(Script):
    """Takes the key back once a request contains a text."""

    last_text: str = ""

    def answer(self, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        if self.last_text in json.dumps(body):
            self.refusals = [401] * 100
        return super().answer(path, body)


def test_scores_that_are_complete_when_the_server_goes_away_are_not_lost() -> None:
    with started(Revoking(last_text="a prime number"), concurrency=1) as engine:
        engine.settings = engine.settings.model_copy(update={"settle_every_s": PATIENCE_S})
        kept = CHOICES._replace(continuations=(" two and two", " one and three"))
        answered: list[int] = []
        with pytest.raises(EngineDead, match="no longer serves requests"):
            answered.extend(i for part in engine.answers([kept, CHOICES]) for i, _ in part)
        assert answered == [0]


def test_a_request_with_an_unforeseen_error_fails_alone_and_no_other_is_asked_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked, first = [], Asker.first

    def unforeseen(self: Asker, request: Request) -> Completion | PartialScore:
        asked.append(request.prompt)
        if "1 plus" in request.prompt:
            raise RuntimeError("can't start new thread")
        return first(self, request)

    monkeypatch.setattr(Asker, "first", unforeseen)
    spec = make_spec(mode=Mode.GENERATE, sampling=Sampling())
    with started(Script()) as engine:
        engine.settings = engine.settings.model_copy(update={"settle_every_s": PATIENCE_S})
        verdicts = score_batch([Item(each, spec) for each in make_questions(3)], engine)
    errors = [str(each.error) if each.error else "" for each in verdicts]
    assert errors == ["", "RuntimeError: can't start new thread", ""]
    assert sum("1 plus" not in each for each in asked) == 2


def test_a_call_ends_when_its_engine_is_closed_although_some_of_its_requests_were_never_made() -> None:
    script, ended = Script(slow_text="Write."), threading.Event()

    def ask() -> None:
        with pytest.raises(EngineDead, match="engine was closed"):
            engine.generate([WRITE] * 3)
        ended.set()

    with started(script, concurrency=1) as engine:
        engine.settings = engine.settings.model_copy(update={"settle_every_s": 0.05})
        threading.Thread(target=ask, daemon=True).start()
        wait_until(lambda: script.at_once == 1, "the first request to arrive")
        closing = threading.Thread(target=engine.close)
        closing.start()
        was_ended = ended.wait(PATIENCE_S)
        script.released.set()
        closing.join()
    assert was_ended
