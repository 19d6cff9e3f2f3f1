"""vLLM asked directly, in a Python of its own: the model that a GPU is timed by, what adapters change, what is refused
alone, and what drafting changes. Three engines, one after the other: to import vLLM takes longer than they do to boot.
They have a compiler that does not work.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from benchmarks.random_model import RANDOM_WEIGHTS, Shape, write_model
from tests.acceptance.conftest import found_by
from tests.adapters import make_adapter
from workers.engines.packaged import prepare

BEGIN = """
import json, logging, sys
from contract import load_settings
from contract.spec import Sampling
from contract.turns import one_turn
from workers.engines import make_engine
from workers.engines.base import GenerateRequest, ScoreRequest
of_random_weights, with_adapters, drafting = json.load(sys.stdin)
"""

TOY = Shape("toy", layers=2, hidden_size=64, intermediate_size=128, heads=2, kv_heads=1, head_size=32)
#: With it, the same weights answer otherwise.
STRETCHED = {"hf_overrides": "{rope_theta: 20000.0}"}
#: Five texts and one question of a model that is booted without weights.
ASK_TOY = """
logging.basicConfig(stream=sys.stderr, level=logging.INFO)
said = []
for name in ("boot_log", "compiling"):
    logging.getLogger(f"workers.engines.{name}").addFilter(lambda record: said.append(record.getMessage()) or True)
engine = make_engine(load_settings(None, of_random_weights))
engine.start()
texts = [GenerateRequest(one_turn(f"What is {number}?"), Sampling(max_tokens=24)) for number in range(5)]
choices = ScoreRequest(one_turn("The answer is"), (" A", " B", " no", " yes, it is"))
*written, scored = engine.generate([*texts, choices])
described = engine.describe()
engine.close()
print("FOUND", json.dumps([said, described, [each.texts[0].tokens for each in written], scored.logprobs]))
"""

#: The same two questions of the model without an adapter and with each, all in one call, and one for an adapter that
#: it lacks. Then one text that vLLM refuses to write, between two that it writes, twice; and another one. At last, what
#: it says once a step had no memory.
ASK = """
from contract.errors import EngineOutOfMemory
from vllm.v1.worker.gpu_model_runner import GPUModelRunner
engine = make_engine(load_settings(None, with_adapters))
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
thinking = one_turn("The capital of Japan?\\n<think>\\nThe question asks")
budgets = [Sampling(max_tokens=12, thinking_token_budget=each) for each in (4, None)]
ended = [each.texts[0].text for each in engine.generate([GenerateRequest(thinking, each) for each in budgets])]
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
execute = GPUModelRunner.execute_model
def without_memory(*_, **__):
    GPUModelRunner.execute_model = execute
    raise MemoryError("full")
GPUModelRunner.execute_model = without_memory
try:
    with_nothing_cached(*ends)
except EngineOutOfMemory:
    (later,) = engine.generate([ScoreRequest(passage, ends)])
engine.close()
said = [scores, texts, str(lacking.error), refused, sampled, by_way, turn.texts[0].text, ended, cached, later.logprobs]
print("FOUND", json.dumps(said))
"""

#: A text and labels in one call, of an engine that drafts tokens. The last one: none boots after it in its process.
ASK_DRAFTING = """
engine = make_engine(load_settings(None, drafting))
engine.start()
begins = one_turn("one two three one two three one two three one")
text, labels = engine.generate([GenerateRequest(begins, Sampling(max_tokens=8)), ScoreRequest(begins, (" A", " B"))])
(thought,) = engine.generate([GenerateRequest(begins, Sampling(max_tokens=8, thinking_token_budget=4))])
engine.close()
print("FOUND", json.dumps([text.texts[0].tokens, str(labels.error), str(thought.error)]))
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
    #: Texts behind a prompt that begins to reason, with four tokens for it and with as many as the text has.
    ended: tuple[str, str]
    #: Log-probabilities of two continuations that begin alike: asked alone when nothing was cached, together then, and
    #: once more; and the tokens in these last prefills, and those of them that came from the cache.
    cached: tuple[list[float], list[float], list[float], int, int]
    #: Those of the same, after a step that ran out of memory.
    later: list[float]


class Found(NamedTuple):
    """What each engine said."""

    #: The model's folder, and what its engine said.
    toy: tuple[Path, list[Any]]
    with_adapters: list[Any]
    drafting: list[Any]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Found:
    folder, model = tmp_path_factory.mktemp("models"), prepare("smollm2-135m-instruct")
    sizes = "max_model_len: 256, max_num_batched_tokens: 128, kv_cache_memory_bytes: 268435456"
    marks = "reasoning_config: {reasoning_start_str: <think>, reasoning_end_str: </think>}"
    with_adapters = [f"vllm_args={{dtype: float32, enforce_eager: true, block_size: 32, {marks}, {sizes}}}"]
    for name, strength in (("zeros", 0.0), ("random", 0.02)):
        with_adapters.append(f"adapters.{name}={make_adapter(folder / name, model, strength=strength)}")
    drafts = "speculative_config: {method: ngram, num_speculative_tokens: 3, prompt_lookup_max: 4}"
    drafting = [f"vllm_args={{dtype: float32, enforce_eager: true, {sizes}, {drafts}}}"]
    toy = write_model(folder, TOY, model)
    small = "max_model_len: 256, max_num_seqs: 8, enforce_eager: true, kv_cache_memory_bytes: 67108864"
    random = ", ".join(f"{name}: {value}" for name, value in {**RANDOM_WEIGHTS, **STRETCHED}.items())
    of_random_weights = [f"hf_model_id={toy}", f"vllm_args={{{small}, {random}}}"]
    uncompiled = {"CXX": "false", "TORCHINDUCTOR_CACHE_DIR": str(folder / "compiled")}
    said = found_by(BEGIN + ASK_TOY + ASK + ASK_DRAFTING, [of_random_weights, with_adapters, drafting], uncompiled)
    return Found((toy, said[0]), said[1], said[2])


@pytest.fixture
def answers(found: Found) -> Answers:
    return Answers(*found.with_adapters)


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


def test_reasoning_ends_where_its_budget_does(answers: Answers) -> None:
    short, free = answers.ended
    assert "</think>" in short
    assert "</think>" not in free


def test_what_continuations_share_is_scored_alike_from_the_cache_without_all_before_it(answers: Answers) -> None:
    computed, sharing, again, prefilled, cached = answers.cached
    assert sharing == pytest.approx(computed, abs=1e-4)
    assert again == pytest.approx(computed, abs=1e-4)
    assert computed[0] != pytest.approx(computed[1], abs=0.1)
    assert prefilled - cached < prefilled / 2, "the passage is not computed again"


def test_what_a_step_ran_out_of_memory_for_is_computed_anew(answers: Answers) -> None:
    """vLLM had its blocks for cached, and the call, made again with fewer requests, got answers to random memory."""
    assert answers.later == pytest.approx(answers.cached[0], abs=1e-4)


def test_an_engine_that_drafts_tokens_writes_texts_and_refuses_labels_with_the_setting_at_fault(found: Found) -> None:
    """vLLM 0.32 calls them finished and gives no log-probabilities: remove the refusal once it does."""
    tokens, refusal, _ = found.drafting
    assert tokens == 8
    assert "With vllm_args.speculative_config, vLLM gives no log-probabilities" in refusal


def test_a_budget_is_refused_where_the_engine_does_not_know_how_reasoning_is_marked(found: Found) -> None:
    """vLLM itself names only options of its own command line."""
    *_, refusal = found.drafting
    assert "sampling.thinking_token_budget" in refusal
    assert "Set vllm_args.reasoning_parser in the deploy file" in refusal


def test_a_shape_without_weights_boots_and_writes_texts_of_full_length_and_weighs_choices(found: Found) -> None:
    """At toy size, the model that a GPU is timed by."""
    folder, (said, described, tokens, scores) = found.toy
    assert tokens == [24] * 5
    assert all(score < 0 for score in scores)
    assert (described["dtype"], described["kv_cache_dtype"], described["weights"]) == ("bfloat16", "bfloat16", "")
    assert described["overrides"] == {"hf_overrides": {"rope_theta": 20000.0}}
    assert said[0] == f"booting vLLM with {folder} on the CPU"
    assert said[1].startswith("vLLM is up after ")


def test_an_engine_whose_helpers_cannot_be_compiled_goes_on_without_and_says_so_once(found: Found) -> None:
    """A compiler that does not work, Python's headers missing, an environment whose path has a blank."""
    _, (said, *_) = found.toy
    (told,) = (each for each in said if "compiled" in each)
    assert told.startswith("vLLM's helpers are not compiled")
    assert "No working C++ compiler found" in told
