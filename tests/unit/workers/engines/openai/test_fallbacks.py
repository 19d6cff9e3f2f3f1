"""A proxy that falls back to another model: what that one answers is not taken for an answer of the one asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from contract import MemoryLedger, Outcome, Prompt, load_settings
from contract.mode import Mode
from contract.spec import Judge, Sampling
from tests.support import make_questions, make_spec, open_run
from tests.unit.workers.engines.openai.server import LETTERS, WRITE, Script, serving, started
from tests.unit.workers.messages.batches import batch_of, message
from tests.unit.workers.stages.support import at_once, scorer
from tests.unit.workers.writer import Writer
from workers.engines import JudgeEngines
from workers.engines.base import NotServed, UnexpectedFailure
from workers.pipeline import score_batch
from workers.scoring import Item

pytestmark = pytest.mark.usefixtures("short_pauses")


@dataclass
class FallingBack(Script):
    """Names the model that answers: the one asked for, or for so many answers, or for some texts, another."""

    name: str = ""
    falls_back: int = 0
    falls_back_for: str = "nothing of the kind"

    def answer(self, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        status, answer = super().answer(path, body)
        self.falls_back -= (is_back := self.falls_back > 0)
        if is_back or self.falls_back_for in str(body):
            return status, {**answer, "model": "spare"}
        return status, {**answer, "model": self.name or body["model"]}


def test_while_another_model_answers_everything_the_one_asked_for_is_waited_for() -> None:
    script, books = FallingBack(), MemoryLedger()
    run = open_run(books, make_questions(8), model="grader")
    with started(script, max_retries=0) as engine:
        stage = scorer(books, engine, engine.settings, stopping=at_once)
        script.falls_back = 40
        stage.run(batch_of(message(run, *[f"q{i}" for i in range(8)])))
        assert not script.falls_back
        assert books.counts(run.run_id).settled == 8
        assert not any(books.troubles(run.run_id, f"q{i}") for i in range(8))


def test_a_prompt_that_only_another_model_answers_has_no_answer() -> None:
    script = FallingBack(falls_back_for="Write.")
    with started(script) as engine:
        refused, other = engine.generate([WRITE, LETTERS])
    assert isinstance(refused.error, UnexpectedFailure)
    assert "an answer of 'spare' instead of 'grader': does a proxy fall back to that model?" in refused.error.message
    assert other.error is None


@pytest.mark.parametrize("name", ["grader-2026-10-01", "/models/grader.gguf"])
def test_a_server_that_calls_its_model_otherwise_may_call_it_anything(name: str) -> None:
    script = FallingBack(name=name)
    with started(script) as engine:
        script.falls_back = 1
        assert [each.error for each in engine.generate([WRITE, LETTERS])] == [None, None]


@pytest.mark.parametrize("name", ["grader-2026-10-01", "grader@20261001"])
def test_a_model_may_be_called_by_its_date_as_well(name: str) -> None:
    script = FallingBack()
    with started(script) as engine:
        script.name = name
        assert [each.error for each in engine.generate([WRITE, LETTERS])] == [None, None]


def test_while_another_model_grades_the_judge_is_waited_for() -> None:
    script = FallingBack(text='{"correct": true, "reason": "fine"}')
    own, judges = Writer(lambda _: ["It is four."]), JudgeEngines(load_settings(None, []))
    with serving(script) as url:
        judge = Judge(prompt=Prompt(name="grade", text="Grade: {{ response }}"), server=url, model="grader")
        spec = make_spec(mode=Mode.JUDGE, sampling=Sampling(), judge=judge)
        items = [Item(each, spec) for each in make_questions(1)]
        (graded,) = score_batch(items, own, judges.engine_of)
        script.falls_back = 100_000
        (put_off,) = score_batch(items, own, judges.engine_of)
        judges.close()
    assert graded.outcome is Outcome.CORRECT
    assert isinstance(put_off.error, NotServed)
    assert "an answer of 'spare' instead of 'grader'" in put_off.error.message
