"""What an OpenAI-compatible server is asked for a text: turns, sampling, the variables of a template, limits."""

from __future__ import annotations

from dataclasses import replace

import pytest

from contract import Outcome
from contract.mode import Mode
from contract.spec import Chat, ChatTemplate, Sampling
from contract.turns import Role, Turn, one_turn
from tests.support import make_questions, make_spec
from tests.unit.workers.engines.openai.server import CHOICES, WRITE, Script, checked, error_of, serving, started, weigh
from workers.engines.base import GenerateRequest, ScoreRequest
from workers.engines.openai.wire import texts_of
from workers.pipeline import score_batch
from workers.scoring import Item

pytestmark = pytest.mark.usefixtures("short_pauses")


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


@pytest.mark.parametrize("tokens", ["12", 1.5, -1, float("inf"), float("nan"), 10**30], ids=str)
def test_a_server_that_counts_tokens_in_no_number_of_them_fails_that_question_alone(tokens: object) -> None:
    questions, spec = make_questions(2), make_spec(mode=Mode.GENERATE, sampling=Sampling())
    odd = {"choices": [{"message": {"content": "Answer: B"}}], "usage": {"prompt_tokens": tokens}}
    script = Script()
    with started(script, concurrency=1) as engine:
        script.bodies = [odd]
        first, second = score_batch([Item(each, spec) for each in questions], engine)
    assert error_of(first).message.endswith(f"prompt_tokens: a number of tokens is expected, found {tokens!r})")
    assert second.outcome in {Outcome.CORRECT, Outcome.WRONG}


TURNS = (
    Turn(Role.SYSTEM, "Be brief."),
    Turn(Role.USER, "What is two?"),
    Turn(Role.ASSISTANT, "one and one"),
    Turn(Role.USER, "What is four?"),
)


def test_turns_are_sent_as_messages_and_a_longer_choice_begins_the_next_one() -> None:
    script = Script()
    with started(script) as engine:
        asked = ScoreRequest(TURNS, CHOICES.continuations, Chat(ChatTemplate.TURNS))
        (completion,) = engine.generate([asked])
    said = [(turn.role.value, turn.text) for turn in TURNS]
    sent = [[(each["role"], each["content"]) for each in seen["messages"]] for seen in script.asked]
    assert sorted(sent) == sorted([said, *([*said, ("assistant", text)] for text in ("two and two", "a prime number"))])
    before = " ".join(turn.text for turn in TURNS)
    assert completion.logprobs == pytest.approx([weigh(before, each) for each in CHOICES.continuations])


def test_more_parameters_of_sampling_are_sent_only_if_they_are_set() -> None:
    script = Script(unsupported={"min_p": "unknown_parameter"})
    samplings = Sampling(top_k=20, presence_penalty=1.5, repetition_penalty=1.1), Sampling(min_p=0.1), Sampling()
    with started(script) as engine:
        taken, refused, plain = (engine.generate([replace(WRITE, sampling=each)])[0] for each in samplings)
        first, *_, last = script.asked
    more = {"top_k": 20, "presence_penalty": 1.5, "repetition_penalty": 1.1}
    assert (taken.error, plain.error) == (None, None)
    assert error_of(refused).message.endswith("Leave sampling.min_p out.")
    assert {name: first[name] for name in more} == more
    assert not more.keys() & last.keys()


def test_variables_of_the_chat_template_are_sent_with_every_request_of_a_chat() -> None:
    kwargs = {"enable_thinking": False}
    in_chat = Chat(ChatTemplate.AUTO, kwargs)
    script = Script(context=500)
    with started(script) as engine:
        script.asked.clear()
        engine.excess_tokens([replace(WRITE, turns=one_turn("word " * 300), chat=in_chat)])
        engine.generate([replace(WRITE, chat=in_chat), ScoreRequest(TURNS, CHOICES.continuations, in_chat)])
    assert len(script.asked) > 3, "a count, a text, a look at the next tokens, and choices that are not among these"
    assert all(each["chat_template_kwargs"] == kwargs for each in script.asked)


def test_variables_for_a_server_that_has_no_chat_are_refused_with_the_remedy() -> None:
    with started(Script(chat=False)) as engine:
        (completion,) = engine.generate([replace(WRITE, chat=Chat(ChatTemplate.AUTO, {"enable_thinking": False}))])
    assert error_of(completion).message.endswith(
        "offers no chat completions for grader: leave chat_template_kwargs out"
    )


def test_a_server_that_takes_no_variables_refuses_the_question_with_the_remedy() -> None:
    script = Script(unsupported={"chat_template_kwargs": "unknown_parameter"})
    with started(script) as engine:
        (completion,) = engine.generate([replace(WRITE, chat=Chat(ChatTemplate.AUTO, {"enable_thinking": False}))])
    assert error_of(completion).message.endswith("Leave chat_template_kwargs out.")


def test_a_text_that_must_follow_a_schema_says_so() -> None:
    script = Script()
    with started(script) as engine:
        engine.generate([replace(WRITE, json_schema='{"type": "object"}')])
    assert script.asked[0]["response_format"]["json_schema"]["schema"] == {"type": "object"}


def test_without_a_chat_template_the_prompt_goes_as_it_is() -> None:
    script = Script()
    with started(script) as engine:
        engine.generate([GenerateRequest(one_turn("Write."), Sampling())])
    assert (script.asked[0]["path"], script.asked[0]["prompt"]) == ("/v1/completions", "Write.")


def test_a_stop_sequence_that_the_server_leaves_in_a_text_is_no_part_of_it() -> None:
    """As `transformers serve`, which ends a text behind the token that completes the sequence."""
    with started(Script(text="The answer is B.\n\nQuestion: What", endings=["length"] * 99)) as engine:
        at_end = GenerateRequest(one_turn("Write."), Sampling(stop=("Question:", "\n\n")))
        not_there = GenerateRequest(one_turn("Write."), Sampling(stop=("Answer:",)))
        ended, whole = engine.generate([at_end, not_there])
    assert [(each.text, each.truncated) for each in ended.texts] == [("The answer is B.", False)]
    assert [(each.text, each.truncated) for each in whole.texts] == [("The answer is B.\n\nQuestion: What", True)]


def test_a_server_that_ignores_the_temperature_casts_no_votes() -> None:
    """As `transformers serve`, if the model's generation_config.json says nothing of `do_sample`."""
    sampled = GenerateRequest(one_turn("Write."), Sampling(samples=3, temperature=0.7))
    script = Script(samples=False)
    with started(script) as engine:
        votes, greedy = engine.generate([sampled, WRITE])
        assert engine.describe()["offers"]["only_greedy"]
    assert "writes the same text at any temperature: set mode: generate and" in error_of(votes).message
    assert greedy.texts
    with serving(script) as url:
        found = checked(url)
    assert found.level == "warning"
    assert "writes the same text at any temperature: runs with sampling.temperature (mode vote) fail" in found.found


def test_a_server_whose_texts_have_not_begun_may_sample() -> None:
    with started(Script(text="", samples=False)) as engine:
        assert "only_greedy" not in engine.describe()["offers"]


@pytest.mark.parametrize(
    ("script", "chat", "says"),
    [
        (Script(plain=False), ChatTemplate.NEVER, "offers only chat completions for grader: set chat_template: auto"),
        (Script(chat=False), ChatTemplate.ALWAYS, "offers no chat completions for grader: set chat_template: never"),
        (Script(chat=False), ChatTemplate.TURNS, "offers no chat completions for grader: set chat_template: never"),
    ],
)
def test_what_the_server_does_not_speak_fails_with_the_remedy(script: Script, chat: ChatTemplate, says: str) -> None:
    turns = TURNS if chat is ChatTemplate.TURNS else one_turn("p")
    with started(script) as engine:
        (completion,) = engine.generate([ScoreRequest(turns, (" a",), Chat(chat))])
    assert says in error_of(completion).message


def test_auto_means_the_chat_template_only_where_there_is_one() -> None:
    script = Script(chat=False)
    with started(script) as engine:
        engine.generate([WRITE])
    assert script.asked[0]["path"] == "/v1/completions"


def test_an_answer_in_parts_is_the_parts_that_are_text() -> None:
    """As of Mistral's reasoning models."""
    parts = [{"type": "thinking", "thinking": []}, {"type": "text", "text": "B"}, {"type": "text", "text": "."}]
    assert texts_of({"choices": [{"message": {"content": parts}}]})[0].text == "B."


def test_a_limit_of_tokens_is_told_by_the_name_that_the_model_takes() -> None:
    script = Script()
    with started(script) as engine:
        script.unsupported = {"max_tokens": "unsupported_parameter"}
        completions = engine.generate([WRITE]) + engine.generate([WRITE])
    assert [each.error for each in completions] == [None, None]
    assert [each.get("max_completion_tokens") for each in script.asked] == [None, 9, 9]


def test_a_limit_of_tokens_that_is_too_large_is_not_told_by_another_name() -> None:
    """From then on, no limit that the server knows was sent."""
    script = Script()
    with started(script) as engine:
        script.unsupported, script.answers_small = {"max_tokens": "unsupported_value"}, True
        (refused,) = engine.generate([WRITE])
        script.unsupported = {}
        engine.generate([WRITE])
    assert "not max_tokens" in error_of(refused).message
    assert [each.get("max_tokens") for each in script.asked] == [9, 1, 9]


def test_a_temperature_that_the_run_asks_for_is_not_left_out() -> None:
    script = Script()
    with started(script) as engine:
        script.unsupported, script.answers_small = {"temperature": "unsupported_value"}, True
        (completion,) = engine.generate([WRITE])
    assert "not temperature" in error_of(completion).message
    assert len(script.asked) == 2, "that one, and one to see whether everybody is refused"
