"""A server that counts tokens tells what is too long; one that is vLLM is asked with names that only vLLM knows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from contract.spec import Chat, ChatTemplate, Sampling
from contract.turns import Role, Turn, one_turn
from tests.unit.workers.engines.openai.server import LETTERS, WRITE, Script, error_of, started
from workers.engines.base import GenerateRequest, ScoreRequest

pytestmark = pytest.mark.usefixtures("short_pauses")


def lengthy(words: int) -> GenerateRequest:
    return GenerateRequest(one_turn(" ".join(["word"] * words)), Sampling(max_tokens=10), seed=5)


def test_a_server_that_counts_tokens_tells_what_is_too_long_and_is_asked_only_of_what_may_be() -> None:
    script = Script(context=400)
    with started(script) as engine:
        assert engine.counts_tokens
        assert engine.excess_tokens([lengthy(391), lengthy(5), lengthy(390), LETTERS]) == [1, 0, 0, 0]
        assert engine.count_tokens(["one two", "three"]) == [2, 1]
    assert [seen["path"] for seen in script.asked] == ["/tokenize"] * 4


def test_a_chat_of_many_short_turns_may_be_too_long_for_what_the_template_puts_around_each() -> None:
    turns = (Turn(Role.USER, "Which?"), Turn(Role.ASSISTANT, "A")) * 20
    script = Script(context=1000)
    with started(script) as engine:
        engine.excess_tokens([lengthy(5), replace(WRITE, turns=turns, chat=Chat(ChatTemplate.TURNS))])
    counted = [seen["messages"] for seen in script.asked if seen["path"] == "/tokenize" and "messages" in seen]
    assert [len(each) for each in counted] == [40]


def test_vllm_samples_as_the_run_says_and_not_as_the_model_recommends_and_keeps_the_marks_of_reasoning() -> None:
    script = Script(context=400)
    with started(script) as engine:
        engine.generate([lengthy(5)])
    told = {"repetition_penalty": 1.0, "top_k": -1, "min_p": 0.0, "skip_special_tokens": False}
    assert {name: script.asked[-1][name] for name in told} == told


def test_other_servers_are_not_asked_with_names_that_only_vllm_knows() -> None:
    script = Script(echo=False)
    with started(script) as engine:
        engine.generate([lengthy(5)])
    assert script.asked[-1].keys().isdisjoint({"repetition_penalty", "top_k", "min_p", "skip_special_tokens"})


def test_a_budget_of_reasoning_is_only_sent_to_a_server_that_keeps_it() -> None:
    """Another one ignored it without a word."""
    asked = replace(lengthy(5), sampling=Sampling(thinking_token_budget=0))
    with started(vllm := Script(context=400)) as engine:
        assert engine.generate([asked])[0].error is None
    assert vllm.asked[-1]["thinking_token_budget"] == 0
    with started(other := Script(echo=False)) as engine:
        before = len(other.asked)
        (refused,) = engine.generate([asked])
    assert "which alone takes sampling.thinking_token_budget: leave it out" in error_of(refused).message
    assert len(other.asked) == before


@pytest.mark.parametrize("chat", [ChatTemplate.NEVER, ChatTemplate.ALWAYS])
def test_the_longest_choice_and_the_token_behind_it_need_room(chat: ChatTemplate) -> None:
    asked = ScoreRequest(one_turn(" ".join(["word"] * 300)), (" A", " two and two"), chat=Chat(chat))
    with started(Script(context=302)) as engine:
        assert engine.excess_tokens([asked]) == [2]


def test_a_server_that_counts_none_cannot_limit_passages_by_tokens() -> None:
    with started(Script()) as engine:
        assert not engine.counts_tokens
        assert engine.excess_tokens([lengthy(10_000)]) == [0]
