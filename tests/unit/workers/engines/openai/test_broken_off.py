"""A text that its server broke off or withheld is no answer."""

from __future__ import annotations

import pytest

from contract import Failure, MemoryLedger, Outcome
from contract.mode import Mode
from contract.spec import Sampling
from tests.support import make_questions, make_spec, open_run
from tests.unit.workers.engines.openai.server import LETTERS, WRITE, Script, error_of, started
from tests.unit.workers.messages.batches import batch_of, message
from tests.unit.workers.stages.support import at_once, scorer
from workers.engines.base import UnexpectedFailure
from workers.messages.batch import Settlement
from workers.pipeline import score_batch
from workers.scoring import Item

pytestmark = pytest.mark.usefixtures("short_pauses")


@pytest.mark.parametrize("ending", ["abort", "error", "insufficient_system_resource"])
def test_a_text_that_the_server_broke_off_is_no_answer_and_its_question_is_asked_again(ending: str) -> None:
    script, books = Script(), MemoryLedger()
    run = open_run(books, make_questions(2), model="grader", mode=Mode.GENERATE, sampling=Sampling())
    with started(script, concurrency=1) as engine:
        stage = scorer(books, engine, engine.settings, stopping=at_once)
        script.endings = [ending]
        batch = batch_of(message(run, "q0", "q1"))
        stage.run(batch)
        assert batch.held[0].settlement is Settlement.REQUEUE
        assert books.counts(run.run_id).settled == 1
        (why,) = books.troubles(run.run_id, "q0")
        assert f"{script.url}/v1: the server broke the text off (finish_reason: {ending})" in why
        stage.run(batch_of(message(run, "q0", "q1")))
    assert [each.choice for _, each in books.results(run.run_id) if each] == ["B", "B"]


def test_a_text_that_the_servers_filter_withheld_makes_its_question_failed_and_not_wrong() -> None:
    script, spec = Script(text=""), make_spec(mode=Mode.GENERATE, sampling=Sampling())
    with started(script) as engine:
        script.endings = ["content_filter"]
        (verdict,) = score_batch([Item(make_questions(1)[0], spec)], engine)
    assert verdict.outcome is Outcome.FAILED
    assert verdict.error is not None
    assert type(verdict.error) is Failure, "asked again, it would be filtered again"
    assert verdict.error.type == "ContentFiltered"
    assert "finish_reason: content_filter" in verdict.error.message


def test_a_server_that_says_why_it_broke_a_text_off_is_quoted() -> None:
    broken = {"message": {"content": "The"}, "finish_reason": "error", "error": {"code": 502, "message": "gone"}}
    script = Script()
    with started(script) as engine:
        script.bodies = [{"choices": [broken]}]
        (completion,) = engine.generate([WRITE])
    assert "(finish_reason: error, {'code': 502, 'message': 'gone'})" in error_of(completion).message


@pytest.mark.parametrize(
    ("ending", "cut"), [("stop", False), ("length", True), ("eos", False), ("tool_calls", False), (None, False)]
)
def test_a_text_that_ended_otherwise_is_an_answer_whatever_the_server_calls_its_end(
    ending: str | None, cut: bool
) -> None:
    script = Script()
    with started(script) as engine:
        script.endings = [ending]
        (completion,) = engine.generate([WRITE])
    assert [(text.text, text.truncated) for text in completion.texts] == [("The answer is B.", cut)]


@pytest.mark.parametrize(("ending", "again"), [("abort", True), ("content_filter", False)])
def test_a_vote_is_not_counted_while_one_of_its_texts_is_missing(ending: str, again: bool) -> None:
    script, spec = Script(), make_spec(mode=Mode.VOTE, sampling=Sampling(samples=5, temperature=1))
    with started(script) as engine:
        script.endings = ["stop", "stop", ending]
        (verdict,) = score_batch([Item(make_questions(1)[0], spec)], engine)
    assert verdict.outcome is Outcome.FAILED
    assert isinstance(verdict.error, UnexpectedFailure) is again


def test_labels_that_the_server_broke_off_are_asked_for_again_and_not_called_unlikely() -> None:
    script = Script(echo=False)
    with started(script) as engine:
        script.bodies = [{"choices": [{"text": "", "logprobs": None, "finish_reason": "abort"}]}]
        (completion,) = engine.generate([LETTERS])
    assert isinstance(completion.error, UnexpectedFailure)
