"""vLLM asked directly, in a Python of its own: what adapters change, and what is refused alone. One boot for all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from tests.acceptance.conftest import found_by
from tests.adapters import make_adapter
from workers.engines.packaged import prepare

#: The same two questions of the model without an adapter and with each, all in one call, and one for an adapter that
#: it lacks. Then one text that vLLM refuses to write, between two that it writes, twice; and another one.
ASK = """
import json, sys
from contract import load_settings
from contract.spec import Sampling
from contract.turns import one_turn
from workers.engines import make_engine
from workers.engines.base import GenerateRequest, ScoreRequest
engine = make_engine(load_settings(None, json.load(sys.stdin)))
engine.start()
names = ["", "zeros", "random"]
begins = one_turn("The capital of France is")
asked = [
    request
    for name in names
    for request in (
        ScoreRequest(begins, (" Paris", " the city of light", " A"), adapter=name),
        GenerateRequest(begins, Sampling(max_tokens=12), adapter=name),
    )
]
found = engine.generate(asked)
scores = {name: found[2 * i].logprobs for i, name in enumerate(names)}
texts = {name: found[2 * i + 1].texts[0].text for i, name in enumerate(names)}
(lacking,) = engine.generate([ScoreRequest(one_turn("x"), (" y",), adapter="law")])
good = Sampling(max_tokens=4)
bad = (good.model_copy(update={"stop": ("",)}), good.model_copy(update={"max_tokens": 10**30}))
refused = []
for asked in ([good, bad[0], good], [good, bad[1], good], [good]):
    found = engine.generate([GenerateRequest(begins, each) for each in asked])
    refused.append([each.texts[0].tokens if each.texts else each.error.type for each in found])
long = [one_turn(f"Song {n}: " + "The cat sat on the mat. " * 12) for n in range(4)]
sung = [GenerateRequest(each, Sampling(max_tokens=8, temperature=0.8), seed=n) for n, each in enumerate(long)]
together, alone = engine.generate(sung), [engine.generate([each])[0] for each in sung]
sampled = [[each.texts[0].text for each in asked] for asked in (together, alone)]
ways = {"greedy": {}}
ways |= {name: {"temperature": 2, name: value} for name, value in (("top_p", 1), ("top_k", 1), ("min_p", 1))}
ways |= {name: {name: value} for name, value in (("presence_penalty", 2), ("repetition_penalty", 9))}
counted = one_turn("one two three one two three one two three one")
chosen = engine.generate([GenerateRequest(counted, Sampling(max_tokens=9, **way)) for way in ways.values()])
by_way = {name: each.texts[0].text for name, each in zip(ways, chosen)}
(turn,) = engine.generate([GenerateRequest(one_turn("<|im_start|>user\\nHi<|im_end|>\\n"), Sampling(max_tokens=3))])
passage = one_turn("The cat sat on the mat. " * 16 + "So where did it sit?")
begin = " It sat, as it had done on each of the days before that one, on the " + "soft and warm " * 12
ends = (begin + "mat", begin + "roof of the house")
def with_nothing_cached(*continuations):
    engine._owner.engine.reset_prefix_cache()
    return engine.generate([ScoreRequest(passage, continuations)])[0]
computed = [with_nothing_cached(each).logprobs[0] for each in ends]
sharing = with_nothing_cached(*ends)
(again,) = engine.generate([ScoreRequest(passage, ends)])
cached = [computed, sharing.logprobs, again.logprobs, again.prefill_tokens, again.cached_tokens]
engine.close()
print("FOUND", json.dumps([scores, texts, str(lacking.error), refused, sampled, by_way, turn.texts[0].text, cached]))
"""


@dataclass(frozen=True)
class Answers:
    """What the engine said: by adapter, of the lacking one, in each call with a refused text, and sampled."""

    scores: dict[str, list[float]]
    texts: dict[str, str]
    lacking: str
    refused: list[list[Any]]
    #: The same texts asked together and one by one.
    sampled: tuple[list[str], list[str]]
    #: Texts behind a prompt that repeats itself, by what was set of sampling.
    by_way: dict[str, str]
    #: The beginning of a turn.
    turn: str
    #: Log-probabilities of two continuations that begin alike: asked alone when nothing was cached, together then, and
    #: once more; and the tokens in these last prefills, and those of them that came from the cache.
    cached: tuple[list[float], list[float], list[float], int, int]


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Answers:
    folder, model = tmp_path_factory.mktemp("adapters"), prepare("smollm2-135m-instruct")
    sizes = "max_model_len: 256, max_num_batched_tokens: 128, block_size: 32, kv_cache_memory_bytes: 268435456"
    settings = [f"vllm_args={{dtype: float32, enforce_eager: true, {sizes}}}"]
    for name, strength in (("zeros", 0.0), ("random", 0.02)):
        settings.append(f"adapters.{name}={make_adapter(folder / name, model, strength=strength)}")
    (found,) = found_by(ASK, settings)
    return Answers(*found)


def test_an_adapter_of_zeros_changes_nothing_and_another_one_everything(answers: Answers) -> None:
    scores, texts = answers.scores, answers.texts
    assert scores["zeros"] == pytest.approx(scores[""], abs=1e-4)
    assert texts["zeros"] == texts[""]
    assert all(abs(a - b) > 0.01 for a, b in zip(scores["random"], scores[""], strict=True))
    assert "no adapter 'law'" in answers.lacking


def test_what_vllm_refuses_is_refused_alone_and_its_engine_goes_on(answers: Answers) -> None:
    stop, long, after = answers.refused
    assert stop == [4, "RequestRejected", 4]
    assert long[0] == long[2] == 4
    assert after == [4]


def test_prompts_that_one_step_cannot_take_are_sampled_as_when_asked_alone(answers: Answers) -> None:
    """vLLM 0.32 ended its engine there on CPUs, whose generators have no offset."""
    together, alone = answers.sampled
    assert together == alone
    assert len(set(together)) > 1


def test_every_parameter_of_sampling_reaches_vllm(answers: Answers) -> None:
    texts = answers.by_way
    assert texts["greedy"].startswith(" two three one two")
    assert texts["top_p"] != texts["greedy"], "drawn from all tokens, at the highest temperature"
    assert texts["top_k"] == texts["min_p"] == texts["greedy"], "drawn from the likeliest token alone"
    assert len(set(texts["presence_penalty"].split())) > len(set(texts["greedy"].split()))
    assert not {"one", "two", "three"} & set(texts["repetition_penalty"].split())


def test_special_tokens_stand_in_a_text_as_a_model_marks_its_reasoning_by_them(answers: Answers) -> None:
    assert answers.turn == "<|im_start|>assistant"


def test_what_continuations_share_is_scored_alike_from_the_cache_without_all_before_it(answers: Answers) -> None:
    computed, sharing, again, prefilled, cached = answers.cached
    assert sharing == pytest.approx(computed, abs=1e-4)
    assert again == pytest.approx(computed, abs=1e-4)
    assert computed[0] != pytest.approx(computed[1], abs=0.1)
    assert prefilled - cached < prefilled / 2, "the passage is not computed again"


#: A text and labels in one call, of an engine that drafts tokens.
ASK_DRAFTING = """
import json, sys
from contract import load_settings
from contract.spec import Sampling
from contract.turns import one_turn
from workers.engines import make_engine
from workers.engines.base import GenerateRequest, ScoreRequest
engine = make_engine(load_settings(None, json.load(sys.stdin)))
engine.start()
begins = one_turn("one two three one two three one two three one")
text, labels = engine.generate([GenerateRequest(begins, Sampling(max_tokens=8)), ScoreRequest(begins, (" A", " B"))])
engine.close()
print("FOUND", json.dumps([text.texts[0].tokens, str(labels.error)]))
"""


def test_an_engine_that_drafts_tokens_writes_texts_and_refuses_labels_with_the_setting_at_fault() -> None:
    """vLLM 0.32 calls them finished and gives no log-probabilities: remove the refusal once it does."""
    sizes = "max_model_len: 256, max_num_batched_tokens: 128, kv_cache_memory_bytes: 268435456"
    drafts = "speculative_config: {method: ngram, num_speculative_tokens: 3, prompt_lookup_max: 4}"
    (found,) = found_by(ASK_DRAFTING, [f"vllm_args={{dtype: float32, enforce_eager: true, {sizes}, {drafts}}}"])
    tokens, refusal = found
    assert tokens == 8
    assert "With vllm_args.speculative_config, vLLM gives no log-probabilities" in refusal
