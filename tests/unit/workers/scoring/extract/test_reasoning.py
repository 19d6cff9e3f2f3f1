"""Reasoning is not read as an answer, however a model marks it."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from workers.scoring.extract import extract
from workers.scoring.extract.visible_text import opened

CITIES = ["Paris", "London", "Rome", "Berlin"]
THOUGHT = "The user asks for the capital of Italy. At first sight, the answer is A. But let me check, as Paris"
#: By the file of vLLM's parser: what is before and what is behind the reasoning.
MARKS = {
    "cohere_command": ("<|START_THINKING|>", "<|END_THINKING|><|START_RESPONSE|>"),
    "deepseek_r1": ("<think>", "</think>"),
    "ernie45": ("<think>\n", "\n</think>\n\n<response>\n"),
    "gemma4_engine": ("<|channel>thought\n", "<channel|>"),
    "gptoss": (
        "<|channel|>analysis<|message|>",
        "<|end|><|start|>assistant<|channel|>final<|message|>",
    ),
    "hunyuan_a13b": ("<think>\n", "\n</think>\n<answer>\n"),
    "hy_v4": ("<think:6124c78e>", "</think:6124c78e>"),
    "inkling": (
        "<|message_model|><|content_thinking|>",
        "<|end_message|><|message_model|><|content_text|>",
    ),
    "k2_horizon": ("<ifm|think>", "</ifm|think>"),
    "k2_horizon, fast": ("<ifm|think_fast>", "</ifm|think_fast>"),
    "k2_horizon, faster": ("<ifm|think_faster>", "</ifm|think_faster>"),
    "kimi_k2": ("◁think▷", "◁/think▷"),
    "kimi_k3": ("<|open|>think<|sep|>", "<|close|>think<|sep|><|open|>response<|sep|>"),
    "minimax_m3": ("<mm:think>", "</mm:think>"),
    "mistral": ("[THINK]", "[/THINK]"),
    "muse_glimmer": ("to=self<|message|>", "<|eom|><|start|>assistant to=user<|message|>"),
    "plamo3_engine": ("<|plamo:begin_think:plamo|>", "<|plamo:end_think:plamo|>"),
    "seed_oss_engine": ("<seed:think>", "</seed:think>"),
    "internlm": ("<|begin_of_thought|>", "<|end_of_thought|>"),
    "medgemma": ("<unused94>thought\n", "<unused95>"),
}
#: Parsers whose marks are `<think>` and `</think>`, or which take others' as they come.
LIKE_OTHERS = {
    "deepseek_v3", "deepseek_v4_engine", "deepseek_v41_engine", "glm47_moe", "granite_thinking_engine", "hy_v3",
    "identity", "ling3", "mimo_engine", "minicpmv", "minimax_m2", "nemotron_v3_engine", "olmo3", "poolside_v1",
    "qwen3_engine", "response_template", "step3", "step3p5_engine",
}  # fmt: skip
#: What models put behind their answer, by the file of their parser.
ENDS = {
    "ernie45": "\n</response>",
    "hunyuan_a13b": "\n</answer>",
    "kimi_k3": "<|close|>response<|sep|><|close|>message<|sep|>",
    "inkling": "<|end_message|><|content_model_end_sampling|>",
    "muse_glimmer": "<|eot|>",
    "gemma4_engine": "<turn|>",
}


@pytest.mark.parametrize("model", MARKS)
def test_reasoning_that_was_cut_off_is_no_answer(model: str) -> None:
    begins, _ = MARKS[model]
    assert extract(begins + THOUGHT, CITIES).rule == "unfinished-reasoning"


@pytest.mark.parametrize("model", MARKS)
@pytest.mark.parametrize("answer", ["C", "C. Rome", "Rome", "The answer is C.", "**C**", "(C)"])
def test_what_follows_the_reasoning_is_read_as_if_it_stood_alone(model: str, answer: str) -> None:
    begins, ends = MARKS[model]
    told = begins + THOUGHT + ends + answer
    assert extract(told, CITIES).label == "C"
    assert extract(told + ENDS.get(model, ""), CITIES).label == "C"


@pytest.mark.parametrize(
    "model", [name for name, (begins, _) in MARKS.items() if begins.startswith(("<t", "<|o", "<|channel>", "<m", "<i"))]
)
def test_reasoning_that_the_template_opened_is_known_by_the_end_of_the_prompt(model: str) -> None:
    begins, ends = MARKS[model]
    assert opened(f"<|assistant|>{begins}") == begins
    assert opened(f"<|assistant|>{begins}{ends}") == ""
    assert extract(THOUGHT + ends + "C", CITIES).label == "C"


@pytest.mark.parametrize("name", ["cot", "chain_of_thought", "thought_process", "inner_monologue", "think "])
def test_reasoning_in_an_element_that_no_parser_knows_is_no_answer(name: str) -> None:
    assert extract(f"<{name}>{THOUGHT}</{name}>C", CITIES).label == "C"
    assert extract(f"<{name}>{THOUGHT}", CITIES).rule == "unfinished-reasoning"


@pytest.mark.parametrize("word", [" is", "'s"])
def test_granites_words_for_reasoning_are_left_out_once_its_answer_has_begun(word: str) -> None:
    thought = f"Here{word} my thought process: {THOUGHT}"
    assert extract(f"{thought}. Here{word} my response: C", CITIES).rule == "leading-label"
    assert extract("Here's my thought process: Rome is its capital. The answer is C.", CITIES).label == "C"


def test_an_answer_in_a_channel_of_its_own_without_reasoning_is_read() -> None:
    for told in ("to=user<|message|>C<|eot|>", "<|message_model|><|content_text|>C<|end_message|>"):
        assert extract(told, CITIES).label == "C"


def test_each_of_vllms_parsers_is_known_here() -> None:
    """A newer vLLM may know models that mark their reasoning in yet another way."""
    spec = importlib.util.find_spec("vllm")
    assert spec is not None
    assert spec.origin is not None
    files = (Path(spec.origin).parent / "reasoning").glob("*_reasoning_parser.py")
    there = {file.name.removesuffix("_reasoning_parser.py") for file in files}
    assert there
    assert there - LIKE_OTHERS - {name.partition(",")[0] for name in MARKS} - {"granite"} == set()


@pytest.mark.parametrize(
    "said",
    [
        "The answer is C. <reason:photosynthesis>",
        "<reason:unknown>The answer is C.",
        "list<analysis:int> is a type. The answer is C.",
        "std::map<ns:thought> is none. The answer is C.",
        "The answer is **C**. </analysis:1>",
        "The answer is C. In harmony, to=self<|message|> marks analysis.",
    ],
)
def test_what_only_looks_like_a_mark_of_reasoning_hides_no_answer(said: str) -> None:
    assert extract(said, CITIES).label == "C"


def test_reasoning_behind_granites_words_is_none_of_its_answer() -> None:
    said = "Here's my thought process: Rome. Here's my response: <think>Paris? The answer is A.</think>"
    assert extract(said, CITIES).label is None
    assert extract(f"{said}C", CITIES).label == "C"
