"""The engine on an OpenAI-compatible server, against a server that speaks the protocol and fails as told."""

from __future__ import annotations

import json
import math
import threading
from dataclasses import dataclass, replace
from typing import Any

import pytest

from contract import Outcome, load_settings
from contract.errors import EngineDead, SettingsError
from contract.settings import OpenAiSettings
from contract.spec import Chat, ChatTemplate, Mode, Sampling
from contract.turns import Role, Turn, one_turn
from tests.support import PATIENCE_S, make_questions, make_spec, wait_until
from tests.unit.workers.engines.openai.server import (
    LETTERS,
    VOCABULARY,
    WRITE,
    Script,
    checked,
    serving,
    settings_for,
    started,
    weigh,
)
from workers.engines import make_engine
from workers.engines.base import Completion, GenerateRequest, Request, ScoreRequest
from workers.engines.openai.asking import Asker, PartialScore
from workers.engines.openai.connection import RateLimiter
from workers.engines.openai.wire import next_tokens, texts_of
from workers.pipeline import score_batch
from workers.scoring import Item

pytestmark = pytest.mark.usefixtures("short_pauses")

CHOICES = ScoreRequest(one_turn("What is four?"), (" two and two", " A", " a prime number"))


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


def test_a_call_that_asks_for_nothing_lets_no_other_call_in() -> None:
    told: list[str] = []
    with started(Script()) as engine:
        engine.room_came = lambda: told.append("room")
        assert list(engine.answers([])) == []
        assert told == []
        list(engine.answers([WRITE]))
    assert told, "one request leaves room beside it"


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
    assert first.error is not None
    assert first.error.message.endswith(f"prompt_tokens: a number of tokens is expected, found {tokens!r})")
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


def test_turns_are_not_sent_to_a_server_that_only_continues_texts() -> None:
    with started(Script(chat=False)) as engine:
        (completion,) = engine.generate([ScoreRequest(TURNS, (" a",), Chat(ChatTemplate.TURNS))])
    assert completion.error is not None
    assert "offers no chat completions for grader: set chat_template: never" in completion.error.message


def test_more_parameters_of_sampling_are_sent_only_if_they_are_set() -> None:
    script = Script(unsupported={"min_p": "unknown_parameter"})
    samplings = Sampling(top_k=20, presence_penalty=1.5, repetition_penalty=1.1), Sampling(min_p=0.1), Sampling()
    with started(script) as engine:
        taken, refused, plain = (engine.generate([replace(WRITE, sampling=each)])[0] for each in samplings)
        first, _, last = script.asked
    more = {"top_k": 20, "presence_penalty": 1.5, "repetition_penalty": 1.1}
    assert (taken.error, plain.error) == (None, None)
    assert refused.error is not None
    assert refused.error.message.endswith("Leave sampling.min_p out.")
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
    assert completion.error is not None
    assert completion.error.message.endswith("offers no chat completions for grader: leave chat_template_kwargs out")


def test_a_server_that_takes_no_variables_refuses_the_question_with_the_remedy() -> None:
    script = Script(unsupported={"chat_template_kwargs": "unknown_parameter"})
    with started(script) as engine:
        (completion,) = engine.generate([replace(WRITE, chat=Chat(ChatTemplate.AUTO, {"enable_thinking": False}))])
    assert completion.error is not None
    assert completion.error.message.endswith("Leave chat_template_kwargs out.")


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
    assert refused.error is not None
    assert "is not among the" in refused.error.message
    assert len(script.asked) == before + (1 if thinks_if_told else 3), "one look ahead, two choices behind it"


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
            [ScoreRequest(one_turn("Which one?"), (" A", " B"), Chat(ChatTemplate.AUTO)), CHOICES]
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
    assert "returns no log-probabilities for grader: only modes that generate text" in letters.error.message


def test_choices_without_a_prompt_fail_with_the_remedy() -> None:
    with started(Script()) as engine:
        (found,) = engine.generate([ScoreRequest(one_turn(""), (" Paris",))])
    assert found.error is not None
    assert "set unconditional_prompt, for example to 'Answer:'" in found.error.message


def test_a_server_that_lists_five_is_asked_for_five() -> None:
    with started(Script(most_top=5)) as engine:
        assert (engine.describe()["offers"]["chat_top"], engine.describe()["offers"]["plain_top"]) == (5, 5)


def test_a_server_that_lists_any_number_gives_labels_that_are_not_among_the_likeliest() -> None:
    with started(Script(echo=False, most_top=1000)) as engine:
        (letters,) = engine.generate([ScoreRequest(one_turn("Which one?"), tuple(VOCABULARY))])
    assert list(letters.logprobs) == [weigh("Which one?", each) for each in VOCABULARY]


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
    assert votes.error is not None
    assert "writes the same text at any temperature: set mode: generate and" in votes.error.message
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
    ],
)
def test_what_the_server_does_not_speak_fails_with_the_remedy(script: Script, chat: ChatTemplate, says: str) -> None:
    with started(script) as engine:
        (completion,) = engine.generate([ScoreRequest(one_turn("p"), (" a",), Chat(chat))])
    assert completion.error is not None
    assert says in completion.error.message


def test_auto_means_the_chat_template_only_where_there_is_one() -> None:
    script = Script(chat=False)
    with started(script) as engine:
        engine.generate([WRITE])
    assert script.asked[0]["path"] == "/v1/completions"


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


def test_an_answer_in_parts_is_the_parts_that_are_text() -> None:
    """As of Mistral's reasoning models."""
    parts = [{"type": "thinking", "thinking": []}, {"type": "text", "text": "B"}, {"type": "text", "text": "."}]
    assert texts_of({"choices": [{"message": {"content": parts}}]})[0].text == "B."


@pytest.mark.parametrize("logprob", [None, "-1"])
def test_a_listed_token_without_a_log_probability_is_not_listed(logprob: object) -> None:
    rows = [{"token": "A", "logprob": -0.5}, {"token": "B", "logprob": logprob}, {"token": "C"}]
    assert next_tokens({"logprobs": {"content": [{"top_logprobs": rows}]}}) == {"A": -0.5}
    assert next_tokens({"logprobs": {"top_logprobs": [{"A": -0.5, "B": logprob}]}}) == {"A": -0.5}


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
        (["engine=openai", "openai.url=http://x"], "openai.url and openai.model belong together"),
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
        script.unsupported = {"max_tokens": "unsupported_value"}
        (refused,) = engine.generate([WRITE])
        script.unsupported = {}
        engine.generate([WRITE])
    assert refused.error is not None
    assert "not max_tokens" in refused.error.message
    assert [each.get("max_tokens") for each in script.asked] == [9, 9]


def test_a_temperature_that_the_run_asks_for_is_not_left_out() -> None:
    script = Script()
    with started(script) as engine:
        script.unsupported = {"temperature": "unsupported_value"}
        (completion,) = engine.generate([WRITE])
    assert completion.error is not None
    assert "not temperature" in completion.error.message
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


def test_a_chat_of_many_short_turns_may_be_too_long_for_what_the_template_puts_around_each() -> None:
    turns = (Turn(Role.USER, "Which?"), Turn(Role.ASSISTANT, "A")) * 20
    script = Script(context=1000)
    with started(script) as engine:
        engine.excess_tokens([lengthy(5), replace(WRITE, turns=turns, chat=Chat(ChatTemplate.TURNS))])
    counted = [seen["messages"] for seen in script.asked if seen["path"] == "/tokenize" and "messages" in seen]
    assert [len(each) for each in counted] == [40]


def test_vllm_samples_as_the_run_says_and_not_as_the_model_recommends() -> None:
    script = Script(context=400)
    with started(script) as engine:
        engine.generate([lengthy(5)])
    assert {name: script.asked[-1][name] for name in ("repetition_penalty", "top_k", "min_p")} == {
        "repetition_penalty": 1.0,
        "top_k": -1,
        "min_p": 0.0,
    }


def test_vllm_is_asked_to_keep_the_special_tokens_that_mark_reasoning() -> None:
    script = Script(context=400)
    with started(script) as engine:
        engine.generate([lengthy(5)])
    assert script.asked[-1]["skip_special_tokens"] is False


def test_other_servers_are_not_asked_with_names_that_only_vllm_knows() -> None:
    script = Script()
    with started(script) as engine:
        engine.generate([lengthy(5)])
    assert script.asked[-1].keys().isdisjoint({"repetition_penalty", "top_k", "min_p", "skip_special_tokens"})


@pytest.mark.parametrize("chat", [ChatTemplate.NEVER, ChatTemplate.ALWAYS])
def test_the_longest_choice_and_the_token_behind_it_need_room(chat: ChatTemplate) -> None:
    asked = ScoreRequest(one_turn(" ".join(["word"] * 300)), (" A", " two and two"), chat=Chat(chat))
    with started(Script(context=302)) as engine:
        assert engine.excess_tokens([asked]) == [2]


def test_a_server_that_counts_none_cannot_limit_passages_by_tokens() -> None:
    with started(Script()) as engine:
        assert not engine.counts_tokens
        assert engine.excess_tokens([lengthy(10_000)]) == [0]
