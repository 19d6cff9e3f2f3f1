"""Choices and labels are scored by the log-probabilities that a server lists or echoes."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from contract import Outcome
from contract.spec import Chat, ChatTemplate, Sampling
from contract.turns import Role, Turn, one_turn
from tests.support import make_questions, make_spec
from tests.unit.workers.engines.openai.server import (
    CHOICES,
    LETTERS,
    VOCABULARY,
    WRITE,
    Script,
    error_of,
    started,
    weigh,
)
from workers.engines.base import GenerateRequest, ScoreRequest
from workers.engines.openai.wire import next_tokens
from workers.pipeline import score_batch
from workers.scoring import Item

pytestmark = pytest.mark.usefixtures("short_pauses")


@pytest.mark.parametrize("thinks_if_told", [True, False])
def test_whether_choices_can_be_scored_behind_a_template_is_learned_for_its_variables_too(thinks_if_told: bool) -> None:
    """A thought that the template puts before a turn that is continued would move what is read as the choice."""
    script = Script(thought="<think> </think>", thinks_if=lambda kwargs: bool(kwargs) is thinks_if_told)
    in_chat = [Chat(ChatTemplate.AUTO, kwargs) for kwargs in ({}, {"enable_thinking": False})]
    asked = [CHOICES._replace(chat=each) for each in in_chat]
    with started(script) as engine:
        plain, told = engine.generate(asked)
        before = len(script.asked)
        engine.generate(asked[1:])
    scored, refused = (plain, told) if thinks_if_told else (told, plain)
    assert scored.error is None
    assert scored.logprobs == pytest.approx([weigh(CHOICES.prompt, each) for each in CHOICES.continuations])
    assert "is not among the" in error_of(refused).message
    assert len(script.asked) == before + (1 if thinks_if_told else 3), "one look ahead, two choices behind it"


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
        (completion,) = engine.generate([ScoreRequest(CHOICES.turns, CHOICES.continuations, Chat(chat))])
    assert completion.error is None
    assert completion.logprobs == pytest.approx([weigh(CHOICES.prompt, each) for each in CHOICES.continuations])
    assert completion.token_counts == (3, 1, 3)
    assert completion.prompt_tokens == 3


def test_what_a_template_writes_before_the_models_turn_is_no_part_of_a_choice() -> None:
    with started(Script(thought="<think> </think>")) as engine:
        (completion,) = engine.generate([ScoreRequest(CHOICES.turns, CHOICES.continuations, Chat(ChatTemplate.ALWAYS))])
        assert not engine.describe()["offers"].get("chat_echo")
    assert "is not among the 20 likeliest next tokens" in error_of(completion).message


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
            [ScoreRequest(one_turn("Which one?"), (" A", " B"), Chat(ChatTemplate.AUTO)), CHOICES]
        )
    # Twenty of the alphabet are listed: either both are among them, or the one that is not is named.
    assert letters.logprobs or (letters.error and "is not among the 20 likeliest" in letters.error.message)
    assert error_of(choices).type == "NotOffered"
    assert "' two and two' is not among the 20 likeliest next tokens" in error_of(choices).message


def test_a_server_without_log_probabilities_only_writes() -> None:
    with started(Script(echo=False, most_top=0)) as engine:
        text, letters = engine.generate([WRITE, LETTERS])
        assert engine.describe()["offers"] == {"chat": True, "plain": True}
    assert text.error is None
    assert "returns no log-probabilities for grader: only modes that generate text" in error_of(letters).message


def test_choices_without_a_prompt_fail_with_the_remedy() -> None:
    with started(Script()) as engine:
        (found,) = engine.generate([ScoreRequest(one_turn(""), (" Paris",))])
    assert "set unconditional_prompt, for example to 'Answer:'" in error_of(found).message


def test_a_server_that_lists_five_is_asked_for_five() -> None:
    with started(Script(most_top=5)) as engine:
        assert (engine.describe()["offers"]["chat_top"], engine.describe()["offers"]["plain_top"]) == (5, 5)


def test_a_server_that_lists_any_number_gives_labels_that_are_not_among_the_likeliest() -> None:
    with started(Script(echo=False, most_top=1000)) as engine:
        (letters,) = engine.generate([ScoreRequest(one_turn("Which one?"), tuple(VOCABULARY))])
    assert list(letters.logprobs) == [weigh("Which one?", each) for each in VOCABULARY]


@pytest.mark.parametrize("logprob", [None, "-1"])
def test_a_listed_token_without_a_log_probability_is_not_listed(logprob: object) -> None:
    rows = [{"token": "A", "logprob": -0.5}, {"token": "B", "logprob": logprob}, {"token": "C"}]
    assert next_tokens({"logprobs": {"content": [{"top_logprobs": rows}]}}) == {"A": -0.5}
    assert next_tokens({"logprobs": {"top_logprobs": [{"A": -0.5, "B": logprob}]}}) == {"A": -0.5}


def test_scores_of_a_server_become_verdicts() -> None:
    questions = make_questions(8)
    with started(Script()) as engine:
        verdicts = score_batch([Item(each, make_spec(questions)) for each in questions], engine)
    assert {verdict.outcome for verdict in verdicts} <= {Outcome.CORRECT, Outcome.WRONG}
    assert all(math.isfinite(score) for verdict in verdicts for score in verdict.choice_scores.values())


BEGUN = (*one_turn("What is four?"), Turn(Role.ASSISTANT, " It is"))


@pytest.mark.parametrize("chat", [ChatTemplate.NEVER, ChatTemplate.AUTO])
def test_words_that_the_answer_begins_with_come_before_what_is_scored(chat: ChatTemplate) -> None:
    script = Script()
    with started(script) as engine:
        (completion,) = engine.generate([ScoreRequest(BEGUN, CHOICES.continuations, Chat(chat))])
    assert completion.error is None
    assert completion.logprobs == pytest.approx([weigh("What is four? It is", each) for each in CHOICES.continuations])
    told = [each for each in script.asked if each["path"] == "/v1/chat/completions"]
    assert all(each["messages"][-1]["content"].startswith("It is") for each in told)
    assert all(each["continue_final_message"] and not each["add_generation_prompt"] for each in told)


def test_words_and_choice_are_counted_together() -> None:
    with started(Script(context=400)) as engine:
        asked = ScoreRequest((*one_turn(" ".join(["word"] * 395)), BEGUN[1]), (" two and two",), WRITE.chat)
        assert engine.excess_tokens([asked]) == [1]


def test_a_text_continues_the_words_that_its_turn_begins_with() -> None:
    script = Script(context=400)
    with started(script) as engine:
        (completion,) = engine.generate([replace(WRITE, turns=BEGUN)])
        assert engine.excess_tokens([replace(WRITE, turns=BEGUN, sampling=Sampling(max_tokens=396))]) == [1]
    assert completion.error is None
    written, counted = script.asked
    for asked in (written, counted):
        assert asked["messages"][1:] == [{"role": "assistant", "content": "It is"}]
        assert asked["continue_final_message"]
        assert not asked["add_generation_prompt"]


@pytest.mark.parametrize("request_", [replace(WRITE, turns=BEGUN), CHOICES._replace(turns=BEGUN, chat=WRITE.chat)])
@pytest.mark.parametrize("plain", [True, False])
def test_a_server_that_may_take_these_words_for_a_whole_turn_is_not_asked(
    request_: GenerateRequest | ScoreRequest, *, plain: bool
) -> None:
    script = Script(echo=False, plain=plain)
    with started(script) as engine:
        (completion,) = engine.generate([request_])
    assert "is not known to let its model continue words" in error_of(completion).message
    assert ("set chat_template: never" in error_of(completion).message) is plain
    assert not script.asked
