"""How a request becomes prefills, and how vLLM's outputs are read: the arithmetic, without vLLM."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest

from contract.errors import ModelNotFound, RequestRejected
from contract.spec import Chat, ChatTemplate, Sampling
from contract.turns import one_turn
from tests.unit.workers.ready_engine import FlatRows, Row, WordTokenizer
from workers.engines.base import Completion, GenerateRequest, ScoreRequest, Text
from workers.engines.encoding import Encoded, PromptEncoder
from workers.engines.packaged import resolve
from workers.engines.prefill import Scores
from workers.engines.prefill_plan import LEAD_FROM_PAIRS, LEAD_FROM_TOKENS, Plan, make_plan, needed_tokens

PROMPT = [1, 2, 3]


def plan(*tails: list[int], limit: int = 100, prompt: list[int] = PROMPT, caches: bool = True) -> Plan:
    made = planned(*tails, limit=limit, prompt=prompt, caches=caches)
    assert not isinstance(made, RequestRejected)
    return made


def planned(*tails: list[int], limit: int, prompt: list[int] = PROMPT, caches: bool = True) -> Plan | RequestRejected:
    request = ScoreRequest(one_turn("p"), tuple("c" for _ in tails))
    return make_plan(request, Encoded("p", prompt, list(tails)), limit, caches=caches)


def says(*fed: float, head: Sequence[int] = (), then: Mapping[int, float] | None = None) -> SimpleNamespace:
    """vLLM's output for prompt and head, of which two tokens were cached: `fed` of the head's own last tokens.

    `then`: how likely tokens come next. The prompt's own rows must not count.
    """
    rows: list[Row] = [{}, {2: -99.0}, {3: -99.0}, *({token: value} for token, value in zip(head, fed, strict=True))]
    next_row = {99: -0.125, **(then or {})}  # vLLM tells of the token that it wrote, too, and of that one first
    return SimpleNamespace(
        outputs=[SimpleNamespace(logprobs=FlatRows(next_row))], prompt_logprobs=FlatRows(*rows), num_cached_tokens=2
    )


def completed(made: Plan, outputs: Sequence[SimpleNamespace]) -> Completion:
    """What `made` says once vLLM has told all of it at once."""
    told = []
    for prefill, output in zip(made.prefills, outputs, strict=True):
        scores = Scores()
        assert scores.add(prefill, output, block_tokens=16) == []
        told.append(scores)
    return made.read(told)


def asked(made: Plan) -> list[tuple[list[int], tuple[int, ...], int]]:
    return [(each.token_ids, each.next_ids, each.start) for each in made.prefills]


def test_single_tokens_share_one_prefill_of_the_prompt() -> None:
    made = plan([10], [11], [12], [13])
    assert asked(made) == [(PROMPT, (10, 11, 12, 13), 0)]
    completion = completed(made, [says(then={10: -1.0, 11: -2.0, 12: -3.0, 13: -4.0})])
    assert completion.logprobs == (-1.0, -2.0, -3.0, -4.0)
    assert completion.prefill_tokens == 3


def test_longer_continuations_take_one_prefill_each_but_for_their_last_token_and_sum_their_own_tokens() -> None:
    made = plan([10, 11], [12, 13, 14])
    assert asked(made) == [([1, 2, 3, 10], (11,), 3), ([1, 2, 3, 12, 13], (14,), 3)]
    completion = completed(
        made, [says(-1.0, head=[10], then={11: -2.0}), says(-0.5, -0.5, head=[12, 13], then={14: -0.5})]
    )
    assert completion.logprobs == pytest.approx((-3.0, -1.5))
    assert completion.token_counts == (2, 3)
    assert completion.prefill_tokens == 9


def test_short_and_long_continuations_mix_in_the_order_asked() -> None:
    made = plan([10, 11, 12], [14], [15, 16], [17])
    assert asked(made) == [
        (PROMPT, (10, 14, 15, 17), 0),
        ([1, 2, 3, 10, 11], (12,), 4),
        ([1, 2, 3, 15], (16,), 0),
    ]
    begin = says(then={10: -0.5, 14: -7.0, 15: -0.25, 17: -8.0})
    outputs = [begin, says(-99.0, -1.0, head=[10, 11], then={12: -2.0}), says(-99.0, head=[15], then={16: -4.0})]
    assert completed(made, outputs).logprobs == (-3.5, -7.0, -4.25, -8.0), (
        "a shared prefill tells how each of them begins"
    )


def test_continuations_that_differ_in_their_last_token_alone_share_a_prefill() -> None:
    made = plan([10, 11, 12], [10, 11, 13], [10, 11, 12])
    assert asked(made) == [([1, 2, 3, 10, 11], (12, 13), 3)]
    assert completed(made, [says(-1.0, -2.0, head=[10, 11], then={12: -0.5, 13: -4.0})]).logprobs == (-3.5, -7.0, -3.5)


def test_a_continuation_that_another_one_begins_with_is_read_on_its_own() -> None:
    made = plan([10, 11], [10, 11, 12])
    outputs = [says(-1.0, head=[10], then={11: -2.0}), says(-1.0, -2.0, head=[10, 11], then={12: -4.0})]
    assert completed(made, outputs).logprobs == (-3.0, -7.0)


def test_several_pairs_of_tokens_share_a_prefill_of_the_prompt_and_nothing_is_asked_of_what_they_are_fed() -> None:
    pairs = [[10 + 2 * k, 11 + 2 * k] for k in range(LEAD_FROM_PAIRS)]
    made = plan(*pairs, caches=False)
    heads = [([*PROMPT, first], (second,), 0) for first, second in pairs]
    assert asked(made) == [(PROMPT, tuple(first for first, _ in pairs), 0), *heads]
    begin = says(then={first: -1.0 for first, _ in pairs})
    outputs = [says(-99.0, head=[first], then={second: -2.0}) for first, second in pairs]
    assert completed(made, [begin, *outputs]).logprobs == (-3.0,) * LEAD_FROM_PAIRS
    assert len(plan(*pairs[1:], caches=False).prefills) == LEAD_FROM_PAIRS - 1, "for fewer, that is dearer"


def test_a_long_prompt_is_prefilled_once_for_how_its_continuations_begin_and_then_read_from_the_cache() -> None:
    long = list(range(100, 100 + LEAD_FROM_TOKENS))
    made = plan([10, 11], [12, 13, 14], prompt=long)
    assert asked(made) == [
        (long, (10, 12), 0),
        ([*long, 10], (11,), 0),
        ([*long, 12, 13], (14,), len(long) + 1),
    ]
    outputs = [says(-99.0, head=[10], then={11: -2.0}), says(-99.0, -0.5, head=[12, 13], then={14: -0.5})]
    assert completed(made, [says(then={10: -1.0, 12: -0.25}), *outputs]).logprobs == (-3.0, -1.25)


def test_a_long_prompt_is_not_prefilled_by_itself_where_nothing_is_cached() -> None:
    long = list(range(100, 100 + LEAD_FROM_TOKENS))
    assert len(plan([10, 11], [12, 13], prompt=long, caches=False).prefills) == 2
    assert len(plan([10, 11], [12, 13], prompt=long[1:]).prefills) == 2, "nor where it is short"


def test_a_prompt_that_does_not_fit_is_rejected_with_the_counts_and_never_cut() -> None:
    rejected = planned([10, 11], limit=4)
    assert isinstance(rejected, RequestRejected)
    assert "Prompt of 3 tokens and longest choice of 2 exceed the context of 4" in str(rejected)
    plan([10, 11], limit=5)
    assert isinstance(planned([10, 11], [12], limit=4), RequestRejected), "the longest choice decides"


@pytest.mark.parametrize(("prompt", "tail"), [([], [10]), (PROMPT, [])], ids=["prompt", "choice"])
def test_what_has_no_tokens_is_rejected(prompt: list[int], tail: list[int]) -> None:
    rejected = planned([11], tail, limit=100, prompt=prompt)
    assert isinstance(rejected, RequestRejected)
    assert "has no tokens" in str(rejected)


def test_a_text_needs_room_for_all_that_may_be_written() -> None:
    request = GenerateRequest(one_turn("p"), Sampling(max_tokens=10))
    assert needed_tokens(request, Encoded("p", PROMPT, [])) == len(PROMPT) + 10


def test_single_token_choices_need_room_for_the_prompt_and_one_more() -> None:
    plan([10], [11], limit=4)
    assert isinstance(planned([10], [11], limit=3), RequestRejected)


def test_cached_and_prefilled_tokens_are_counted_over_all_prefills() -> None:
    completion = completed(
        plan([10, 11], [12, 13]),
        [says(-1.0, head=[10], then={11: -1.0}), says(-1.0, head=[12], then={13: -1.0})],
    )
    assert (completion.prefill_tokens, completion.cached_tokens, completion.prompt_tokens) == (8, 4, 3)


@pytest.mark.parametrize(("most", "is_full"), [(2, False), (3, True)])
def test_texts_come_in_the_order_of_samples_and_say_whether_they_were_cut_and_whether_by_the_context(
    most: int, *, is_full: bool
) -> None:
    request = GenerateRequest(one_turn("p"), Sampling(samples=2, temperature=0.5, max_tokens=most))
    made = make_plan(request, Encoded("p", PROMPT, []), 10, caches=True)
    assert not isinstance(made, RequestRejected)
    second = SimpleNamespace(index=1, text="b", token_ids=[1, 2], finish_reason="length", stop_reason=None)
    first = SimpleNamespace(index=0, text="a", token_ids=[1], finish_reason="stop", stop_reason="\n\n")
    completion = made.read([SimpleNamespace(outputs=[second, first], num_cached_tokens=0)])
    assert completion.texts == (
        Text("a", 1, truncated=False, context_full=False, stopped=True),
        Text("b", 2, truncated=True, context_full=is_full),
    )


@pytest.mark.parametrize("padding", [0, 30, 3000])
def test_texts_know_how_the_prompt_ended_that_they_follow(padding: int) -> None:
    text = "City? ‹assistant›" + padding * " " + "  <think>\n"
    made = make_plan(GenerateRequest(one_turn("p"), Sampling()), Encoded(text, PROMPT, []), 10, caches=True)
    assert not isinstance(made, RequestRejected)
    cut = SimpleNamespace(index=0, text="Rome?", token_ids=[1], finish_reason="length", stop_reason=None)
    ended = made.read([SimpleNamespace(outputs=[cut], num_cached_tokens=0)]).prompt_end
    assert ended.endswith("  <think>\n")
    assert len(ended) <= min(len(text), 100), "a long prompt is not kept for its end"


def test_of_several_texts_nobody_knows_what_an_earlier_question_left_them_in_the_cache() -> None:
    """vLLM tells it of one of them alone, and that one has it from the others."""
    request = GenerateRequest(one_turn("p"), Sampling(samples=2, temperature=0.5))
    made = make_plan(request, Encoded("p", PROMPT, []), 10, caches=True)
    assert not isinstance(made, RequestRejected)
    ended = {"finish_reason": "stop", "stop_reason": None}
    texts = [SimpleNamespace(index=at, text="a", token_ids=[1], **ended) for at in range(2)]
    counted = [made.read([SimpleNamespace(outputs=texts[:n], num_cached_tokens=2)]).cached_tokens for n in (1, 2)]
    assert counted == [2, 0]


def encoded(chat_template: str | None, chat: ChatTemplate, prompt: str = "What is it?") -> Encoded | RequestRejected:
    request = ScoreRequest(one_turn(prompt), (" one thing", " two"), Chat(chat))
    return PromptEncoder(WordTokenizer(chat_template)).encode([request])[0]


def test_a_base_models_prompt_begins_with_one_bos_and_choices_follow_with_their_space() -> None:
    found = encoded(None, ChatTemplate.AUTO)
    assert isinstance(found, Encoded)
    assert found.text == "What is it?"
    assert found.prompt.count(1) == 1
    assert [len(tail) for tail in found.tails] == [2, 1]


def test_a_template_that_writes_bos_itself_does_not_double_it() -> None:
    found = encoded(None, ChatTemplate.NEVER, prompt="<s> What is it?")
    assert isinstance(found, Encoded)
    assert found.prompt.count(1) == 1


def test_a_chat_model_is_asked_in_its_own_template_and_choices_begin_its_turn() -> None:
    found = encoded("some template", ChatTemplate.AUTO)
    assert isinstance(found, Encoded)
    assert found.text == "[ What is it? ]"
    assert 1 not in found.prompt


def test_never_and_always_override_what_is_detected() -> None:
    never = encoded("some template", ChatTemplate.NEVER)
    assert isinstance(never, Encoded)
    assert never.text == "What is it?"
    assert isinstance(encoded(None, ChatTemplate.ALWAYS), RequestRejected)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("/no/such/folder", "no folder /no/such/folder"),
        ("~no-such-user/model", "no folder ~no-such-user/model"),
        (f"/tmp/{'x' * 300}", "hf_model_id: .* cannot be read: File name too long.*Check the path"),
        ("./no/such", "no folder no/such.*which begins where you run the command"),
        ("smollm2-135m", "neither a folder.*Did you mean 'smollm2-135m-instruct'"),
    ],
)
def test_a_model_that_does_not_exist_is_named_with_the_nearest(name: str, says: str) -> None:
    with pytest.raises(ModelNotFound, match=says):
        resolve(name)


@pytest.mark.parametrize("name", ["model.gguf", "./model.gguf", "owner/model.gguf"])
def test_a_file_is_not_told_as_missing(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A GGUF file was "no folder model.gguf. Check the path."."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "owner").mkdir()
    (tmp_path / name).touch()
    with pytest.raises(ModelNotFound, match=r"model.gguf is a file\. .* model folder; llama.cpp's server"):
        resolve(name)


def test_a_hub_id_is_passed_on() -> None:
    assert resolve("Qwen/Qwen2.5-1.5B-Instruct") == "Qwen/Qwen2.5-1.5B-Instruct"
