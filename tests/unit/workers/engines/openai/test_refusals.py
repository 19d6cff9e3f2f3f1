"""What a refusal by an OpenAI-compatible server means: for its question, for all questions, and for the engine."""

from __future__ import annotations

from typing import Any

import pytest

from contract import Failure, MemoryLedger, Outcome, Verdict
from contract.errors import EngineDead, SettingsError
from tests.support import make_questions, open_run
from tests.unit.workers.engines.openai.server import LETTERS, WRITE, Script, error_of, serving, settings_for, started
from tests.unit.workers.messages.batches import batch_of, message
from tests.unit.workers.stages.support import at_once, scorer
from workers.engines import make_engine
from workers.engines.base import UnexpectedFailure
from workers.messages.batch import Settlement

pytestmark = pytest.mark.usefixtures("short_pauses")


@pytest.mark.parametrize("status", [408, 429, 500, 503])
def test_what_may_pass_is_tried_again(status: int) -> None:
    script = Script()
    with started(script) as engine:
        script.refusals = [status, status]
        (completion,) = engine.generate([WRITE])
    assert completion.error is None
    assert len(script.asked) == 3


def refusal_in_200(code: int | str) -> dict[str, Any]:
    """What OpenRouter sends with status 200 when the server that it asked has refused."""
    return {"error": {"code": code, "message": "upstream is rate-limited"}}


@pytest.mark.parametrize("code", [408, 429, 500, "503"])
def test_a_refusal_sent_as_a_success_is_tried_again_like_one_with_the_status_that_it_names(code: int | str) -> None:
    script = Script()
    with started(script) as engine:
        script.bodies = [refusal_in_200(code)] * 2
        (completion,) = engine.generate([WRITE])
    assert completion.error is None
    assert len(script.asked) == 3


def test_a_refusal_sent_as_a_success_that_does_not_pass_is_no_verdict_on_its_question_but_one_of_its_attempts() -> None:
    script = Script()
    with started(script, max_retries=1) as engine:
        script.bodies = [refusal_in_200(429)] * 2
        (completion,) = engine.generate([WRITE])
    assert isinstance(completion.error, UnexpectedFailure)
    assert completion.error.type == "RateLimitError"
    assert "upstream is rate-limited" in completion.error.message


def test_a_refusal_sent_as_a_success_that_cannot_pass_is_final_at_once() -> None:
    script = Script()
    with started(script) as engine:
        script.bodies = [refusal_in_200(400)]
        (completion,) = engine.generate([WRITE])
    assert (type(completion.error), error_of(completion).type) == (Failure, "BadRequestError")
    assert len(script.asked) == 2, "that one, and one to see whether everybody is refused"


def test_half_of_an_emoji_in_a_refusal_does_not_keep_the_verdicts_of_its_batch_from_being_written() -> None:
    """A proxy in JavaScript had cut what it quoted; the whole batch was asked anew, and that question five times."""
    script = Script()
    with started(script) as engine:
        script.cut_off = [r'{"error": {"code": 400, "message": "too rude: \ud83d"}}']
        (completion,) = engine.generate([WRITE])
    assert completion.error is not None
    assert r"too rude: \ud83d" in completion.error.message
    verdict = Verdict(question_id="q0", outcome=Outcome.FAILED, error=completion.error)
    assert Verdict.model_validate_json(verdict.model_dump_json()) == verdict


@pytest.mark.parametrize("param", [["body", "seed"], {"name": "seed"}])
def test_a_refusal_that_names_its_parameter_in_an_unknown_way_is_a_refusal_all_the_same(
    monkeypatch: pytest.MonkeyPatch, param: object
) -> None:
    """It was taken for an answer that cannot be read, and at boot it ended the worker with a traceback."""
    script = Script()
    error = {"code": "unsupported_parameter", "message": "no seed here", "param": param}
    with started(script) as engine:
        answer = script.answer
        odd = iter([(400, {"error": error})])
        monkeypatch.setattr(script, "answer", lambda *asked: next(odd, None) or answer(*asked))
        (completion,) = engine.generate([WRITE])
    assert completion.error is not None
    assert (completion.error.type, "no seed here" in completion.error.message) == ("BadRequestError", True)


def test_a_model_that_is_down_for_now_is_waited_for_also_if_that_is_sent_as_a_success() -> None:
    script = Script()
    with started(script, max_retries=0) as engine:
        script.bodies = [refusal_in_200(502)] * 4
        (completion,) = engine.generate([WRITE])
    assert completion.error is None
    assert not script.bodies


@pytest.mark.parametrize("code", [401, 403])
def test_a_key_behind_the_server_that_is_refused_is_not_taken_for_ours(code: int) -> None:
    script = Script()
    with started(script) as engine:
        script.bodies = [refusal_in_200(code)]
        first, second = engine.generate([WRITE])[0], engine.generate([WRITE])[0]
    assert isinstance(first.error, UnexpectedFailure)
    assert second.error is None


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ('{"error": "inputs must have less than 1024 tokens"}', " - inputs must have less than 1024 tokens"),
        ('{"detail": "No such model, sk-very-secret"}', " - {'detail': 'No such model, …'}"),
        ('{"error": {"message": "too long", "code": 7}}', " - too long"),
        ("<html><h1>Bad Request</h1></html>", ""),
        ("", ""),
    ],
)
def test_a_refusal_is_told_in_the_servers_words_whatever_their_form(said: str, told: str) -> None:
    script = Script()
    with started(script, api_key="sk-very-secret") as engine:
        script.refusals, script.cut_off = [400], [said]
        (completion,) = engine.generate([WRITE])
    assert error_of(completion).message == f"{script.url}/v1: Error code: 400{told}"


@pytest.mark.parametrize("body", [{"choices": []}, {"error": "busy"}, {"error": {"code": "busy", "message": "m"}}])
def test_a_success_that_is_no_answer_costs_its_question_an_attempt_and_no_more(body: dict[str, Any]) -> None:
    script = Script()
    with started(script) as engine:
        script.bodies = [body]
        first, second = engine.generate([WRITE])[0], engine.generate([WRITE])[0]
    assert isinstance(first.error, UnexpectedFailure)
    assert f"an answer without choices: {body}" in first.error.message
    assert second.error is None
    assert [each.get("prompt") for each in script.asked] == [None, None, None]


TOO_DEEP = "[" * 100_000 + "]" * 100_000


@pytest.mark.parametrize(
    "cut_off",
    [
        "",
        "\n\n",
        '{"choices": [{"te',
        pytest.param(f'{{"choices": {TOO_DEEP}}}', id="too deep"),
        pytest.param(f'{{"error": {TOO_DEEP}}}', id="an error that is too deep"),
    ],
)
def test_a_success_that_is_not_json_costs_its_question_an_attempt_and_no_more(cut_off: str) -> None:
    script = Script()
    with started(script) as engine:
        script.cut_off = [cut_off]
        first, second = engine.generate([WRITE])[0], engine.generate([WRITE])[0]
    assert isinstance(first.error, UnexpectedFailure)
    assert "an answer" in first.error.message
    assert second.error is None


@pytest.mark.parametrize("choice", [None, {}, {"message": None}, {"message": {"content": ["B"]}}])
def test_an_answer_that_cannot_be_read_costs_its_question_an_attempt_and_the_others_nothing(choice: object) -> None:
    script = Script()
    with started(script, concurrency=1) as engine:
        script.bodies = [{"choices": [choice]}]
        broken, *others = engine.generate([WRITE] * 3)
    assert isinstance(broken.error, UnexpectedFailure)
    assert "an answer that cannot be read" in broken.error.message
    assert [each.error for each in others] == [None, None]
    assert len(script.asked) == 3, "the others were asked again"


def test_a_score_that_cannot_be_read_costs_its_question_an_attempt_and_the_others_nothing() -> None:
    script = Script(most_top=0)
    with started(script, concurrency=1) as engine:
        script.bodies = [{"choices": [{"text": "", "logprobs": None}], "usage": {"prompt_tokens": 4}}] * 2
        script.bodies.append({"choices": [{"text": "", "logprobs": [7]}]})
        errors = [each.error for each in engine.generate([LETTERS, LETTERS]) if each.error]
    assert [type(each) for each in errors] == [UnexpectedFailure], "one of them, whichever was weighed first"
    assert "an answer that cannot be read" in errors[0].message


@pytest.mark.parametrize("message", [{"role": "assistant"}, {"content": None}])
def test_a_message_without_content_is_a_text_that_has_not_begun(message: dict[str, Any]) -> None:
    """Where all tokens went into reasoning that the server keeps to itself, some leave the content out."""
    script = Script()
    with started(script) as engine:
        script.bodies = [{"choices": [{"message": message, "finish_reason": "length"}], "usage": {"prompt_tokens": 3}}]
        (completion,) = engine.generate([WRITE])
    assert [(each.text, each.truncated) for each in completion.texts] == [("", True)]


def test_half_a_character_at_the_end_of_a_text_does_not_keep_its_batch_from_being_stored() -> None:
    """A proxy that counts in UTF-16 may cut a text off in the middle of an emoji."""
    script = Script(text="The answer is B. \ud83d")
    with started(script) as engine:
        (completion,) = engine.generate([WRITE])
    (text,) = completion.texts
    assert text.text == "The answer is B. \ufffd"
    assert Verdict(question_id="q0", outcome=Outcome.CORRECT, raw_text=text.text).model_dump_json()


def test_token_counts_that_a_server_leaves_open_are_none() -> None:
    script = Script()
    with started(script) as engine:
        usage = {"prompt_tokens": None, "completion_tokens": None}
        script.bodies = [{"choices": [{"message": {"content": "B"}}], "usage": usage}]
        (completion,) = engine.generate([WRITE])
    assert (completion.prompt_tokens, completion.texts[0].tokens) == (0, 0)


def test_an_answer_that_also_reports_an_error_is_an_answer() -> None:
    script = Script()
    with started(script) as engine:
        script.bodies = [{"choices": [{"text": "B"}], "error": {"code": 429}}]
        (completion,) = engine.generate([WRITE])
    assert [text.text for text in completion.texts] == ["B"]


def test_a_server_whose_success_is_never_an_answer_is_a_mistake_in_the_settings() -> None:
    with serving(Script(bodies=[{"error": "Unexpected endpoint or method."}] * 1000)) as url:
        engine = make_engine(settings_for(url, max_retries=0))
        with pytest.raises(SettingsError, match="Unexpected endpoint or method"):
            engine.start()
        engine.close()


@pytest.mark.parametrize("status", [408, 409, 429, 500])
def test_a_question_that_alone_is_refused_for_now_is_asked_again_later_and_not_failed(status: int) -> None:
    script, books = Script(), MemoryLedger()
    run = open_run(books, make_questions(2), model="grader")
    with started(script, max_retries=1) as engine:
        stage = scorer(books, engine, engine.settings, stopping=at_once)
        script.unwanted = {"What is 0 plus": status}
        batch = batch_of(message(run, "q0", "q1"))
        stage.run(batch)
        assert batch.held[0].settlement is Settlement.REQUEUE
        assert books.counts(run.run_id).settled == 1
        script.unwanted = {}
        stage.run(batch_of(message(run, "q0", "q1")))
    assert [each.error for _, each in books.results(run.run_id) if each] == [None, None]


def test_a_question_that_alone_is_refused_at_each_attempt_is_failed_with_what_the_server_said() -> None:
    script, books = Script(unwanted={"What is 0 plus": 429}), MemoryLedger()
    run = open_run(books, make_questions(1), model="grader")
    with started(script, max_retries=0) as engine:
        stage = scorer(books, engine, engine.settings, stopping=at_once)
        for _ in range(engine.settings.max_attempts):
            stage.run(batch_of(message(run, "q0")))
    ((_, verdict),) = books.results(run.run_id)
    assert verdict is not None
    assert verdict.error is not None
    assert verdict.error.type == "TooManyAttempts"
    assert verdict.error.message.count("RateLimitError") == engine.settings.max_attempts


def test_a_text_that_the_server_does_not_want_fails_its_question_and_not_the_engine() -> None:
    script = Script()
    with started(script) as engine:
        script.unwanted = {"Write.": 403}
        (refused,) = engine.generate([WRITE])
        script.unwanted = {}
        (other,) = engine.generate([WRITE])
    assert (type(refused.error), error_of(refused).type) == (Failure, "PermissionDeniedError")
    assert other.error is None


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
def test_a_key_or_a_model_that_is_taken_away_ends_the_engine_before_it_fails_a_question(status: int) -> None:
    script = Script()
    with started(script, api_key="s3cret") as engine:
        script.refusals = [status] * 2
        with pytest.raises(EngineDead, match=f"no longer serves requests: .* {status}") as caught:
            engine.generate([WRITE])
    assert "s3cret" not in str(caught.value)


def test_a_request_that_is_refused_fails_alone() -> None:
    script = Script()
    with started(script) as engine:
        script.refusals = [400]
        completions = engine.generate([WRITE, WRITE, WRITE])
    assert sorted(each.error.type if each.error else "" for each in completions) == ["", "", "BadRequestError"]


def test_a_server_that_goes_away_is_the_engines_death_and_no_questions_failure() -> None:
    with serving(Script()) as url:
        engine = make_engine(settings_for(url, max_retries=0))
        engine.start()
    with pytest.raises(EngineDead, match="no longer serves requests"):
        engine.generate([WRITE, LETTERS])
    engine.close()
