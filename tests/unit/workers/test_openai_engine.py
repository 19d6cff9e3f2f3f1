"""The engine on an OpenAI-compatible server, against a server that speaks the protocol and fails as told."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
from openai import InternalServerError

from contract import Failure, MemoryLedger, Outcome, Prompt, Settings, load_settings
from contract.errors import EngineDead, EngineError, SettingsError
from contract.settings import OpenAiSettings
from contract.spec import ChatTemplate, Judge, Mode, Sampling
from contract.turns import Role, Turn, one_turn
from tests.support import PATIENCE_S, make_questions, make_spec, open_run, wait_until
from tests.unit.workers.batches import batch_of, message
from tests.unit.workers.openai_server import VOCABULARY, Script, serving, weigh
from tests.unit.workers.test_modes import Writer
from workers.check import Finding, check
from workers.engines import JudgeEngines, make_engine
from workers.engines.base import GenerateRequest, ScoreRequest, UnexpectedFailure
from workers.engines.openai import OpenAiEngine
from workers.engines.openai_patience import Patience
from workers.engines.openai_server import Connection, RateLimiter
from workers.messages.batch import Settlement
from workers.pipeline import score_batch
from workers.scoring import Item
from workers.stages.scoring import BatchScorer
from workers.stages.work import StageContext

GRADED = '{"correct": true, "reason": "fine"}'
LETTERS = ScoreRequest(one_turn("Which letter comes first?"), (" A", " B", " C", " D"))
CHOICES = ScoreRequest(one_turn("What is four?"), (" two and two", " A", " a prime number"))
WRITE = GenerateRequest(one_turn("Write."), Sampling(max_tokens=9), seed=5, chat=ChatTemplate.AUTO)


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client's pauses between retries, which are its own affair, and ours for a server that refuses everybody."""
    monkeypatch.setattr("openai._base_client.MAX_RETRY_DELAY", 0.01)
    monkeypatch.setattr("workers.engines.openai_patience.WAIT_S", 0.01)


def settings_for(url: str, **more: object) -> Settings:
    overrides = [f"openai.{name}={value}" for name, value in {"url": url, "model": "grader", **more}.items()]
    return load_settings(None, ["engine=openai", "server_startup_timeout=0.1", *overrides])


@contextmanager
def started(script: Script, **more: object) -> Iterator[OpenAiEngine]:
    """The engine on a server that follows `script`; what it asked at its start is forgotten."""
    with serving(script) as url:
        engine = make_engine(settings_for(url, **more))
        assert isinstance(engine, OpenAiEngine)
        engine.start()
        script.asked.clear()
        try:
            yield engine
        finally:
            engine.close()


def test_a_text_is_asked_for_with_all_that_decides_it() -> None:
    script = Script()
    with started(script, api_key="s3cret") as engine:
        (completion,) = engine.generate([WRITE])
    assert [(text.text, text.tokens) for text in completion.texts] == [("The answer is B.", 3)]
    (seen,) = script.asked
    assert seen["path"] == "/v1/chat/completions"
    assert seen["messages"] == [{"role": "user", "content": "Write."}]
    assert (seen["model"], seen["max_tokens"], seen["temperature"], seen["seed"]) == ("grader", 9, 0.0, 5)
    assert "stream" not in seen
    assert set(script.keys) == {"Bearer s3cret"}


def test_a_server_that_writes_one_text_at_a_time_is_asked_until_there_are_as_many_as_wanted() -> None:
    script = Script(most_texts=2)
    with started(script) as engine:
        (completion,) = engine.generate([GenerateRequest(one_turn("Write."), Sampling(samples=5), seed=5)])
    assert len(completion.texts) == 5
    assert [(seen["n"], seen["seed"]) for seen in script.asked] == [(5, 5), (3, 7), (1, 9)]
    assert completion.prefill_tokens == 3 * completion.prompt_tokens


TURNS = (
    Turn(Role.SYSTEM, "Be brief."),
    Turn(Role.USER, "What is two?"),
    Turn(Role.ASSISTANT, "one and one"),
    Turn(Role.USER, "What is four?"),
)


def test_turns_are_sent_as_messages_and_a_longer_choice_begins_the_next_one() -> None:
    script = Script()
    with started(script) as engine:
        asked = ScoreRequest(TURNS, CHOICES.continuations, ChatTemplate.TURNS)
        (completion,) = engine.generate([asked])
    said = [(turn.role.value, turn.text) for turn in TURNS]
    sent = [[(each["role"], each["content"]) for each in seen["messages"]] for seen in script.asked]
    assert sorted(sent) == sorted([said, *([*said, ("assistant", text)] for text in ("two and two", "a prime number"))])
    before = " ".join(turn.text for turn in TURNS)
    assert completion.logprobs == pytest.approx([weigh(before, each) for each in CHOICES.continuations])


def test_turns_are_not_sent_to_a_server_that_only_continues_texts() -> None:
    with started(Script(chat=False)) as engine:
        (completion,) = engine.generate([ScoreRequest(TURNS, (" a",), ChatTemplate.TURNS)])
    assert completion.error is not None
    assert "offers no chat completions for grader: set chat_template: never" in completion.error.message


def test_a_text_that_must_follow_a_schema_says_so() -> None:
    script = Script()
    with started(script) as engine:
        engine.generate(
            [GenerateRequest(one_turn("Grade."), Sampling(), chat=ChatTemplate.AUTO, json_schema='{"type": "object"}')]
        )
    assert script.asked[0]["response_format"]["json_schema"]["schema"] == {"type": "object"}


def test_without_a_chat_template_the_prompt_goes_as_it_is() -> None:
    script = Script()
    with started(script) as engine:
        engine.generate([GenerateRequest(one_turn("Write."), Sampling())])
    assert (script.asked[0]["path"], script.asked[0]["prompt"]) == ("/v1/completions", "Write.")


def test_letters_that_the_server_lists_cost_one_request() -> None:
    script = Script()
    with started(script) as engine:
        (first,) = engine.generate([ScoreRequest(LETTERS.turns, tuple(VOCABULARY))])
        alone = max(zip(first.logprobs, VOCABULARY, strict=True))[1]
        script.asked.clear()
        (completion,) = engine.generate([ScoreRequest(LETTERS.turns, (alone,))])
    assert completion.logprobs == pytest.approx((weigh(LETTERS.prompt, alone),))
    assert len(script.asked) == 1
    assert first.logprobs == pytest.approx([weigh(LETTERS.prompt, each) for each in VOCABULARY])


@pytest.mark.parametrize("chat", [ChatTemplate.NEVER, ChatTemplate.AUTO])
def test_longer_continuations_are_weighed_behind_their_prompt(chat: ChatTemplate) -> None:
    script = Script()
    with started(script) as engine:
        (completion,) = engine.generate([ScoreRequest(CHOICES.turns, CHOICES.continuations, chat)])
    assert completion.error is None
    assert completion.logprobs == pytest.approx([weigh(CHOICES.prompt, each) for each in CHOICES.continuations])
    assert completion.token_counts == (3, 1, 3)
    assert completion.prompt_tokens == 3


def test_what_a_template_writes_before_the_models_turn_is_no_part_of_a_choice() -> None:
    with started(Script(thought="<think> </think>")) as engine:
        (completion,) = engine.generate([ScoreRequest(CHOICES.turns, CHOICES.continuations, ChatTemplate.ALWAYS)])
        assert not engine.describe()["offers"].get("chat_echo")
    assert completion.error is not None
    assert "is not among the 20 likeliest next tokens" in completion.error.message


def test_white_space_at_a_prompts_end_goes_before_each_choice_as_a_tokenizer_may_join_them() -> None:
    script = Script()
    with started(script) as engine:
        (spaced,) = engine.generate([ScoreRequest(one_turn("What is four? "), ("two and two", "A"))])
        (bare,) = engine.generate([ScoreRequest(one_turn("What is four?"), (" two and two", " A"))])
    assert spaced.error is None
    assert spaced == bare


def test_a_server_without_echo_weighs_what_it_lists_and_says_what_it_cannot() -> None:
    with started(Script(echo=False)) as engine:
        letters, choices = engine.generate(
            [ScoreRequest(one_turn("Which one?"), (" A", " B"), ChatTemplate.AUTO), CHOICES]
        )
    # Twenty of the alphabet are listed: either both are among them, or the one that is not is named.
    assert letters.logprobs or (letters.error and "is not among the 20 likeliest" in letters.error.message)
    assert choices.error is not None
    assert choices.error.type == "NotOffered"
    assert "' two and two' is not among the 20 likeliest next tokens" in choices.error.message


def test_a_server_without_log_probabilities_only_writes() -> None:
    with started(Script(echo=False, most_top=0)) as engine:
        text, letters = engine.generate([WRITE, LETTERS])
        assert engine.describe()["offers"] == {"chat": True, "plain": True}
    assert text.error is None
    assert letters.error is not None
    assert "returns no log-probabilities: only modes that generate text" in letters.error.message


def test_a_server_that_lists_five_is_asked_for_five() -> None:
    with started(Script(most_top=5)) as engine:
        assert (engine.describe()["offers"]["chat_top"], engine.describe()["offers"]["plain_top"]) == (5, 5)


@pytest.mark.parametrize(
    ("script", "chat", "says"),
    [
        (Script(plain=False), ChatTemplate.NEVER, "offers only chat completions for grader: set chat_template: auto"),
        (Script(chat=False), ChatTemplate.ALWAYS, "offers no chat completions for grader: set chat_template: never"),
    ],
)
def test_what_the_server_does_not_speak_fails_with_the_remedy(script: Script, chat: ChatTemplate, says: str) -> None:
    with started(script) as engine:
        (completion,) = engine.generate([ScoreRequest(one_turn("p"), (" a",), chat)])
    assert completion.error is not None
    assert says in completion.error.message


def test_auto_means_the_chat_template_only_where_there_is_one() -> None:
    script = Script(chat=False)
    with started(script) as engine:
        engine.generate([WRITE])
    assert script.asked[0]["path"] == "/v1/completions"


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
    assert completion.error is not None
    assert (type(completion.error), completion.error.type) == (Failure, "BadRequestError")
    assert len(script.asked) == 1


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


@pytest.mark.parametrize("cut_off", ["", "\n\n", '{"choices": [{"te'])
def test_a_success_that_is_not_json_costs_its_question_an_attempt_and_no_more(cut_off: str) -> None:
    script = Script()
    with started(script) as engine:
        script.cut_off = [cut_off]
        first, second = engine.generate([WRITE])[0], engine.generate([WRITE])[0]
    assert isinstance(first.error, UnexpectedFailure)
    assert "an answer" in first.error.message
    assert second.error is None


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
        context = StageContext(engine.settings, books, "w@host", lambda *_: None, stopping=lambda: True)
        scorer = BatchScorer(context, engine)
        script.unwanted = {"What is 0 plus": status}
        batch = batch_of(message(run, "q0", "q1"))
        scorer.run(batch)
        assert batch.held[0].settlement is Settlement.REQUEUE
        assert books.counts(run.run_id).settled == 1
        script.unwanted = {}
        scorer.run(batch_of(message(run, "q0", "q1")))
    assert [each.error for _, each in books.results(run.run_id) if each] == [None, None]


def test_a_question_that_alone_is_refused_at_each_attempt_is_failed_with_what_the_server_said() -> None:
    script, books = Script(unwanted={"What is 0 plus": 429}), MemoryLedger()
    run = open_run(books, make_questions(1), model="grader")
    with started(script, max_retries=0) as engine:
        context = StageContext(engine.settings, books, "w@host", lambda *_: None, stopping=lambda: True)
        scorer = BatchScorer(context, engine)
        for _ in range(engine.settings.max_attempts):
            scorer.run(batch_of(message(run, "q0")))
    ((_, verdict),) = books.results(run.run_id)
    assert verdict is not None
    assert verdict.error is not None
    assert verdict.error.type == "TooManyAttempts"
    assert verdict.error.message.count("RateLimitError") == engine.settings.max_attempts


@pytest.mark.parametrize("status", [402, 408, 409, 429, 500, 503])
def test_a_server_that_refuses_everybody_is_waited_for_and_costs_no_question_an_attempt(status: int) -> None:
    script, books = Script(), MemoryLedger()
    run = open_run(books, make_questions(8), model="grader")
    with started(script, max_retries=0) as engine:
        scorer = BatchScorer(StageContext(engine.settings, books, "w@host", lambda *_: None, lambda: True), engine)
        script.refusals = [status] * 40
        scorer.run(batch_of(message(run, *[f"q{i}" for i in range(8)])))
        assert not script.refusals
        assert books.counts(run.run_id).settled == 8
        assert not any(books.troubles(run.run_id, f"q{i}") for i in range(8))
        assert engine.waits_for == ""


def test_requests_that_are_refused_together_are_told_apart_from_a_refusal_of_everybody_by_one_small_request() -> None:
    script = Script(unwanted={"Write.": 403}, slow_text="Write.")
    with started(script, concurrency=16) as engine, ThreadPoolExecutor() as pool:
        asked = pool.submit(engine.generate, [WRITE] * 16)
        wait_until(lambda: script.at_once == 16, "all requests to arrive")
        script.slow_text = ""
        script.released.set()
        assert all(each.error for each in asked.result())
    assert len(script.asked) < 16 + 16


def test_one_request_that_takes_a_proxy_too_long_ends_no_engine() -> None:
    script = Script(unwanted={"Write.": 504})
    with started(script, max_retries=0) as engine:
        refused, other = engine.generate([WRITE, LETTERS])
    assert isinstance(refused.error, UnexpectedFailure)
    assert other.error is None


def test_a_server_of_our_own_that_refuses_everybody_is_replaced_and_not_waited_for() -> None:
    with serving(Script(refusals=[500] * 2)) as url:
        connection = Connection(settings_for(url).openai)
        with pytest.raises(InternalServerError) as first:
            connection.post("/completions", once=True, prompt="Write.")
        patience = Patience(connection, lambda: False, in_chat=False, is_ours=True)
        with pytest.raises(InternalServerError):
            patience.outlast(first.value)


def test_a_worker_that_stops_waits_no_longer() -> None:
    script, stopping = Script(), threading.Event()
    with serving(script) as url:
        engine = make_engine(settings_for(url, max_retries=0))
        engine.stopping = stopping.is_set
        engine.start()
        with ThreadPoolExecutor() as pool:
            script.refusals = [429] * 100_000
            asked = pool.submit(engine.generate, [WRITE, LETTERS])
            wait_until(lambda: bool(engine.waits_for), "refusal")
            stopping.set()
            with pytest.raises(EngineDead, match="stopped while it waited for the server, which refuses everything"):
                asked.result()
        engine.close()


def test_what_a_server_that_refuses_everybody_says_is_shown_while_it_is_waited_for() -> None:
    script = Script()
    with started(script, max_retries=0, api_key="s3cret") as engine:
        script.refusals = [429] * 100_000
        with ThreadPoolExecutor() as pool:
            asked = pool.submit(engine.generate, [WRITE])
            wait_until(lambda: bool(engine.waits_for), "refusal")
            said = engine.waits_for
            script.refusals = []
            assert asked.result()[0].error is None
    assert said.startswith(f"the server, which refuses everything for now: {script.url}/v1: Error code: 429")


def test_an_engine_that_is_closed_waits_no_longer() -> None:
    script = Script(refusals=[])
    with started(script, max_retries=0) as engine, ThreadPoolExecutor() as pool:
        script.refusals = [429] * 100_000
        asked = pool.submit(engine.generate, [WRITE])
        wait_until(lambda: bool(engine.waits_for), "refusal")
        engine.close()
        with pytest.raises(EngineDead, match="stopped while it waited"):
            asked.result()


def test_a_text_that_the_server_does_not_want_fails_its_question_and_not_the_engine() -> None:
    script = Script()
    with started(script) as engine:
        script.unwanted = {"Write.": 403}
        (refused,) = engine.generate([WRITE])
        script.unwanted = {}
        (other,) = engine.generate([WRITE])
    assert refused.error is not None
    assert (type(refused.error), refused.error.type) == (Failure, "PermissionDeniedError")
    assert other.error is None


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_key_or_a_model_that_is_taken_away_ends_the_engine_before_it_fails_a_question(status: int) -> None:
    script = Script()
    with started(script) as engine:
        script.refusals = [status] * 2
        with pytest.raises(EngineDead, match=f"no longer serves requests: .* {status}"):
            engine.generate([WRITE])


@pytest.mark.parametrize("ending", ["abort", "error", "insufficient_system_resource"])
def test_a_text_that_the_server_broke_off_is_no_answer_and_its_question_is_asked_again(ending: str) -> None:
    script, books = Script(), MemoryLedger()
    run = open_run(books, make_questions(2), model="grader", mode=Mode.GENERATE, sampling=Sampling())
    with started(script, concurrency=1) as engine:
        scorer = BatchScorer(StageContext(engine.settings, books, "w@host", lambda *_: None, lambda: True), engine)
        script.endings = [ending]
        batch = batch_of(message(run, "q0", "q1"))
        scorer.run(batch)
        assert batch.held[0].settlement is Settlement.REQUEUE
        assert books.counts(run.run_id).settled == 1
        (why,) = books.troubles(run.run_id, "q0")
        assert f"{script.url}/v1: the server broke the text off (finish_reason: {ending})" in why
        scorer.run(batch_of(message(run, "q0", "q1")))
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
    assert completion.error is not None
    assert "(finish_reason: error, {'code': 502, 'message': 'gone'})" in completion.error.message


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


def test_a_request_that_is_refused_fails_alone() -> None:
    script = Script()
    with started(script) as engine:
        script.refusals = [400]
        completions = engine.generate([WRITE, WRITE, WRITE])
    assert sorted(each.error.type if each.error else "" for each in completions) == ["", "", "BadRequestError"]


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

    pacer = RateLimiter(30, lambda: now[0], sleep)
    for _ in range(4):
        pacer.wait()
    assert slept == [2.0, 2.0, 2.0]
    now[0] += 60
    pacer.wait()
    assert len(slept) == 3, "what was not used is not owed"


def test_a_server_that_goes_away_is_the_engines_death_and_no_questions_failure() -> None:
    with serving(Script()) as url:
        engine = make_engine(settings_for(url, max_retries=0))
        engine.start()
    with pytest.raises(EngineDead, match="no longer serves requests"):
        engine.generate([WRITE, LETTERS])
    engine.close()


def test_a_key_that_is_refused_in_mid_run_costs_no_question() -> None:
    script = Script()
    with started(script, api_key="s3cret") as engine:
        script.refusals = [401] * 2
        with pytest.raises(EngineDead) as caught:
            engine.generate([WRITE])
    assert "s3cret" not in str(caught.value)


def test_a_server_that_never_comes_is_named() -> None:
    engine = make_engine(settings_for("http://127.0.0.1:1"))
    with pytest.raises(EngineError, match=r"No server answers: http://127.0.0.1:1/v1"):
        engine.start()
    engine.close()


def test_a_server_that_is_away_is_waited_for_aloud(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def no_longer(_: float) -> None:
        raise EngineError("waited enough")

    monkeypatch.setattr("workers.engines.openai_server.time.sleep", no_longer)
    engine = make_engine(settings_for("http://127.0.0.1:1").model_copy(update={"server_startup_timeout": 600}))
    with pytest.raises(EngineError, match="waited enough"):
        engine.start()
    engine.close()
    assert engine.waits_for == "the server at http://127.0.0.1:1/v1"
    (said,) = caplog.messages
    expected = "waiting up to 600 s for the server at openai.url: No server answers: http://127.0.0.1:1/v1: "
    assert said.startswith(expected)


@pytest.mark.parametrize("status", [502, 503, 504])
def test_a_server_behind_a_proxy_is_waited_for_until_the_proxy_reaches_it(
    status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workers.engines.openai_server.WAIT_S", 0.01)
    script = Script(away=[status] * 3)
    with serving(script) as url:
        engine = make_engine(settings_for(url).model_copy(update={"server_startup_timeout": PATIENCE_S}))
        engine.start()
        engine.close()
    assert not script.away


def test_a_proxy_that_never_reaches_its_server_is_named() -> None:
    with serving(Script(away=[503] * 1000)) as url:
        engine = make_engine(settings_for(url))
        with pytest.raises(EngineError, match=r"No server answers: .* 503"):
            engine.start()
        engine.close()


def test_a_server_that_cannot_list_its_models_is_used_all_the_same() -> None:
    with started(Script(away=[501])) as engine:
        assert engine.generate([WRITE])


def test_a_server_that_only_fails_at_its_start_is_tried_again_and_no_mistake_in_the_settings() -> None:
    with serving(Script(refusals=[503] * 1000)) as url:
        engine = make_engine(settings_for(url, max_retries=0))
        with pytest.raises(EngineError, match="The server answers no test request"):
            engine.start()
        engine.close()


def test_a_server_that_is_busy_when_the_worker_starts_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workers.engines.openai_server.WAIT_S", 0.01)
    with serving(Script(refusals=[429] * 100)) as url:
        engine = make_engine(settings_for(url, max_retries=0).model_copy(update={"server_startup_timeout": PATIENCE_S}))
        engine.start()
        assert engine.describe()["offers"]["chat_echo"]
        engine.close()


def test_a_server_that_answers_is_waited_for_no_more() -> None:
    with started(Script()) as engine:
        assert engine.waits_for == ""


@pytest.mark.parametrize(
    ("script", "can"),
    [
        (Script(), "chat and plain completions: log-probabilities of any text"),
        (Script(echo=False, chat=False), "plain completions: log-probabilities of the 20 likeliest next tokens only"),
        (
            Script(echo=False, most_top=0, plain=False),
            "chat completions: no log-probabilities, so only modes that generate text can be used",
        ),
        (
            Script(thought="<think> </think>"),
            "chat completions: log-probabilities of the 20 likeliest next tokens only; "
            "plain completions (chat_template: never): log-probabilities of any text",
        ),
    ],
)
def test_check_asks_the_server_and_says_what_it_can(script: Script, can: str) -> None:
    with serving(script) as url:
        assert checked(url) == Finding("ok", "engine", f"grader of {url}/v1 answers: {can}")


def test_check_says_that_no_server_answers_or_that_it_does_not_serve_the_model() -> None:
    assert checked("http://127.0.0.1:1") == Finding(
        "error",
        "engine",
        "No server answers: http://127.0.0.1:1/v1: Connection error.",
        "Check openai.url; is the server running?",
    )
    with serving(Script(chat=False, plain=False)) as url:
        unknown = checked(url, model="grater")
    assert (unknown.level, unknown.remedy) == ("error", "Did you mean 'grader'?")
    assert unknown.found.startswith("The server answers no test request.")


def checked(url: str, **more: object) -> Finding:
    """What `workers check` says of the engine on this server."""
    return next(each for each in check([settings_for(url, **more)], [0]) if each.what == "engine")


def test_a_model_that_the_server_does_not_have_is_told_with_the_nearest_it_has() -> None:
    with serving(Script(chat=False, plain=False)) as url:
        engine = make_engine(settings_for(url, model="grater"))
        with pytest.raises(SettingsError, match="Did you mean 'grader'"):
            engine.start()
        engine.close()


def test_the_key_is_in_no_description_and_no_setting_that_is_shown() -> None:
    script = Script()
    with started(script, api_key="s3cret") as engine:
        assert "s3cret" not in f"{engine.describe()} {engine.settings!r} {engine.settings.model_dump()}"


@pytest.mark.parametrize(
    ("overrides", "says"),
    [
        (["engine=openai"], "asks one server: either openai.url and openai.model, or boot_local"),
        (["engine=openai", "boot_local=true", "openai.url=http://x", "openai.model=m"], "asks one server"),
        (["boot_local=true"], "boot_local has no effect with engine vllm"),
        (["engine=simulated", "boot_local=true"], "boot_local has no effect with engine simulated"),
        (["engine=openai", "openai.url=http://x"], "url and model belong together"),
        (["openai.url=http://u:s3cret@x", "openai.model=m"], "give the key as openai.api_key"),
        (["openai.url=x", "openai.model=m"], "expected http://host or https://host"),
        (["openai.api_key=[s3cret]"], "api_key"),
        (["openai=s3cret"], "openai"),
    ],
)
def test_settings_that_cannot_be_are_refused_without_showing_a_key(overrides: list[str], says: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load_settings(None, overrides)
    assert says in str(caught.value)
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "base"),
    [
        ("http://h:1", "http://h:1/v1"),
        ("http://h:1/", "http://h:1/v1"),
        ("http://h/v1/", "http://h/v1"),
        ("https://h/v1beta/openai", "https://h/v1beta/openai"),
    ],
)
def test_a_url_without_a_path_means_v1(url: str, base: str) -> None:
    assert OpenAiSettings(url=url, model="m").base_url == base


@pytest.fixture
def judged() -> Iterator[tuple[Script, Settings]]:
    script = Script(text=GRADED)
    with serving(script):
        yield script, load_settings(None, ["judge_api_key=s3cret"])


def verdicts_of(url: str, settings: Settings, count: int) -> tuple[list[Any], Writer]:
    judge = Judge(prompt=Prompt(name="grade", text="Grade: {{ response }}"), server=url, model="grader")
    spec = make_spec(mode=Mode.JUDGE, sampling=Sampling(), judge=judge)
    own, judges = Writer(lambda _: ["It is four."]), JudgeEngines(settings)
    try:
        return score_batch([Item(each, spec) for each in make_questions(count)], own, judges.engine_of), own
    finally:
        judges.close()


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


def test_another_servers_model_grades_what_this_one_answered(judged: tuple[Script, Settings]) -> None:
    script, settings = judged
    verdicts, own = verdicts_of(script.url, settings, 6)
    assert [verdict.outcome for verdict in verdicts] == [Outcome.CORRECT] * 6
    assert [len(call) for call in own.calls] == [6]
    assert {seen["messages"][0]["content"] for seen in script.asked} == {"Grade: It is four."}
    assert set(script.keys) == {"Bearer s3cret"}


def test_a_judge_that_is_away_makes_questions_failed_and_not_wrong() -> None:
    (verdict,), _ = verdicts_of("http://127.0.0.1:1", load_settings(None, []), 1)
    assert verdict.outcome is Outcome.FAILED
    assert (verdict.error.type, "127.0.0.1:1" in verdict.error.message) == ("APIConnectionError", True)
    assert "is judge.server correct, running, and reachable from the workers?" in verdict.error.message


@pytest.mark.parametrize(
    ("status", "remedy"),
    [
        (401, "set MCQUEUE_JUDGE_API_KEY for the workers"),
        (403, "set MCQUEUE_JUDGE_API_KEY for the workers"),
        (404, "Check judge.server and judge.model."),
        (400, "This is what judge.server answers."),
    ],
)
def test_a_judge_that_refuses_is_told_with_the_setting_to_look_at(
    judged: tuple[Script, Settings], status: int, remedy: str
) -> None:
    script, settings = judged
    script.refusals = [status]
    (verdict,), _ = verdicts_of(script.url, settings, 1)
    assert verdict.outcome is Outcome.FAILED
    assert remedy in verdict.error.message
    assert "s3cret" not in verdict.error.message


def test_a_judge_that_is_busy_is_asked_again_and_one_that_is_away_is_not(judged: tuple[Script, Settings]) -> None:
    script, settings = judged
    script.refusals = [429] * (1 + OpenAiSettings().max_retries)
    (busy,), _ = verdicts_of(script.url, settings, 1)
    (away,), _ = verdicts_of("http://127.0.0.1:1", load_settings(None, []), 1)
    assert isinstance(busy.error, UnexpectedFailure)
    assert not isinstance(away.error, UnexpectedFailure)


def test_a_grade_that_the_judges_server_broke_off_is_asked_for_again_and_no_fault_of_the_judge(
    judged: tuple[Script, Settings],
) -> None:
    script, settings = judged
    script.endings = ["abort"]
    (verdict,), _ = verdicts_of(script.url, settings, 1)
    assert isinstance(verdict.error, UnexpectedFailure)
    assert len(script.asked) == 1


def test_scores_of_a_server_become_verdicts() -> None:
    questions = make_questions(8)
    with started(Script()) as engine:
        verdicts = score_batch([Item(each, make_spec(questions)) for each in questions], engine)
    assert {verdict.outcome for verdict in verdicts} <= {Outcome.CORRECT, Outcome.WRONG}
    assert all(math.isfinite(score) for verdict in verdicts for score in verdict.choice_scores.values())


def lengthy(words: int) -> GenerateRequest:
    return GenerateRequest(one_turn(" ".join(["word"] * words)), Sampling(max_tokens=10), seed=5)


def test_a_server_that_counts_tokens_tells_what_is_too_long_and_is_asked_only_of_what_may_be() -> None:
    script = Script(context=400)
    with started(script) as engine:
        assert engine.counts_tokens
        assert engine.excess_tokens([lengthy(391), lengthy(5), lengthy(390), LETTERS]) == [1, 0, 0, 0]
        assert engine.count_tokens(["one two", "three"]) == [2, 1]
    assert [seen["path"] for seen in script.asked] == ["/tokenize"] * 4


def test_vllm_samples_as_the_run_says_and_not_as_the_model_recommends() -> None:
    script = Script(context=400)
    with started(script) as engine:
        engine.generate([lengthy(5)])
    assert {name: script.asked[-1][name] for name in ("repetition_penalty", "top_k", "min_p")} == {
        "repetition_penalty": 1.0,
        "top_k": -1,
        "min_p": 0.0,
    }


def test_other_servers_are_not_asked_with_names_that_only_vllm_knows() -> None:
    script = Script()
    with started(script) as engine:
        engine.generate([lengthy(5)])
    assert script.asked[-1].keys().isdisjoint({"repetition_penalty", "top_k", "min_p"})


@pytest.mark.parametrize("chat", [ChatTemplate.NEVER, ChatTemplate.ALWAYS])
def test_the_longest_choice_and_the_token_behind_it_need_room(chat: ChatTemplate) -> None:
    asked = ScoreRequest(one_turn(" ".join(["word"] * 300)), (" A", " two and two"), chat=chat)
    with started(Script(context=302)) as engine:
        assert engine.excess_tokens([asked]) == [2]


def test_a_server_that_counts_none_cannot_limit_passages_by_tokens() -> None:
    with started(Script()) as engine:
        assert not engine.counts_tokens
        assert engine.excess_tokens([lengthy(10_000)]) == [0]
