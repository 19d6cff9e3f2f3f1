"""A model's tokenizer follows its own file, whatever class transformers would load it as."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from contract.errors import ModelNotFound
from contract.spec import Chat, ChatTemplate, Sampling
from contract.turns import one_turn
from tests.support import ROOT
from workers.engines.base import GenerateRequest, ScoreRequest
from workers.engines.encoding import Encoded, PromptEncoder
from workers.engines.model_files import tokenizer_of
from workers.engines.model_tokenizer import correct_vllm, load_tokenizer

TEXTS = [json.loads(line)["text"] for line in (ROOT / "demo" / "corpus.jsonl").read_text().splitlines()]
PROMPT = "Question: What is the symbol of iron, found in 1886?\nAnswer:"
CHOICES = (" Fe", " the symbol 26", " 1886")
#: Splits numbers into groups of three digits, as Llama 3 and OLMo 2 do, and not as Qwen2 does.
THREE_DIGITS = r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"


def byte_level() -> Tokenizer:
    """As Llama 3 and DeepSeek have it: bytes, words split by a pattern, a BOS before the text."""
    made = Tokenizer(models.BPE())
    split = pre_tokenizers.Split(Regex(THREE_DIGITS), "isolated")
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    special = ["<eos>", "<bos>"]
    made.train_from_iterator(
        TEXTS, trainers.BpeTrainer(vocab_size=900, special_tokens=special, initial_alphabet=alphabet)
    )
    made.post_processor = processors.TemplateProcessing(single="<bos> $A", special_tokens=[("<bos>", 1)])
    return made


def llama_2() -> Tokenizer:
    """As its file has it: a space before every text, and spaces as a visible character."""
    made = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>", fuse_unk=True))
    made.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    parts = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    made.decoder = decoders.Sequence(parts)
    special = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    trainer = trainers.BpeTrainer(vocab_size=900, special_tokens=special, max_token_length=8)
    made.train_from_iterator(TEXTS, trainer)
    made.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return made


def model(folder: Path, made: Tokenizer, model_type: str, tokenizer_class: str, **more: object) -> str:
    """Write a model's folder, without weights."""
    made.save(str(folder / "tokenizer.json"))
    (folder / "config.json").write_text(json.dumps({"model_type": model_type}))
    named = {
        "tokenizer_class": tokenizer_class,
        "chat_template": "{{ messages[0].content }}",
        "eos_token": "<eos>",
        **more,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(named))
    return str(folder)


@pytest.fixture
def vllm_as_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Undo what `correct_vllm` does, after the test."""
    from vllm.tokenizers import hf

    monkeypatch.setattr(hf, "AutoTokenizer", hf.AutoTokenizer)


@pytest.mark.parametrize(
    ("model_type", "tokenizer_class"),
    [("llama", "LlamaTokenizerFast"), ("qwen2", "PreTrainedTokenizerFast"), ("gpt2", "GPT2TokenizerFast")],
)
def test_a_prompt_has_the_tokens_of_the_models_own_file(tmp_path: Path, model_type: str, tokenizer_class: str) -> None:
    made = byte_level()
    encoder = PromptEncoder(load_tokenizer(model(tmp_path, made, model_type, tokenizer_class)))
    (found,) = encoder.encode([ScoreRequest(one_turn(PROMPT), CHOICES)])
    assert isinstance(found, Encoded)
    assert [[*found.prompt, *tail] for tail in found.tails] == [made.encode(PROMPT + each).ids for each in CHOICES]
    assert encoder.variables is not None, "its chat template is lost"


def test_vllm_loads_the_same_tokenizer(tmp_path: Path, vllm_as_installed: None) -> None:
    from vllm.tokenizers import get_tokenizer

    correct_vllm()
    made = byte_level()
    loaded: Any = get_tokenizer(model(tmp_path, made, "llama", "LlamaTokenizerFast"))
    ids = made.encode(PROMPT).ids
    assert loaded(PROMPT)["input_ids"] == ids
    assert loaded.decode(ids, skip_special_tokens=True) == PROMPT


@pytest.mark.parametrize("more", [{}, {"add_prefix_space": False}], ids=["as it is", "without a space before a text"])
def test_a_class_that_differs_from_the_file_where_a_text_begins_is_kept(tmp_path: Path, more: dict[str, bool]) -> None:
    """Also behind special tokens, as Llama 2's does, which other programs use."""
    encoder = PromptEncoder(load_tokenizer(model(tmp_path, llama_2(), "llama", "LlamaTokenizerFast", **more)))
    assert type(encoder._tokenizer).__name__ == "LlamaTokenizer"
    (found,) = encoder.encode([ScoreRequest(one_turn("Fe"), (" is",))])
    assert isinstance(found, Encoded)
    _, first, *_ = encoder._tokenizer.convert_ids_to_tokens(found.prompt)
    assert first.startswith("▁") is not bool(more)


@pytest.mark.parametrize("own", [None, "{{ messages[0].content }}!"])
def test_a_chat_template_that_only_the_models_processor_reads_is_the_tokenizers_where_that_has_none(
    own: str | None, tmp_path: Path
) -> None:
    folder = model(tmp_path, byte_level(), "llava", "PreTrainedTokenizerFast", chat_template=own)
    processors_own = "{% for part in messages[0].content %}USER: {{ part.text }}{% endfor %} ASSISTANT:"
    (tmp_path / "chat_template.json").write_text(json.dumps({"chat_template": processors_own}))
    asked = GenerateRequest(one_turn("Fe?"), Sampling(), chat=Chat(ChatTemplate.AUTO))
    (found,) = PromptEncoder(load_tokenizer(folder)).encode([asked])
    assert isinstance(found, Encoded)
    assert found.text == ("Fe?!" if own else "USER: Fe? ASSISTANT:")


@pytest.mark.parametrize("content", ["{", "[]", "{}", '{"chat_template": {"default": "x"}}'])
def test_a_file_without_a_chat_template_gives_none(content: str, tmp_path: Path) -> None:
    folder = model(tmp_path, byte_level(), "llava", "PreTrainedTokenizerFast", chat_template=None)
    (tmp_path / "chat_template.json").write_text(content)
    assert load_tokenizer(folder).chat_template is None


def test_without_an_engine_a_tokenizer_is_the_one_that_the_engines_arguments_name(
    tmp_path: Path, vllm_as_installed: None
) -> None:
    folders = [tmp_path / name for name in ("own", "named")]
    for each in folders:
        each.mkdir()
    own, named = byte_level(), llama_2()
    place = model(folders[0], own, "llama", "LlamaTokenizerFast")
    other = model(folders[1], named, "llama", "LlamaTokenizerFast")
    ids = [
        tokenizer_of(place, arguments)("Iron", add_special_tokens=False)["input_ids"]
        for arguments in ({}, {"tokenizer": other}, {"tokenizer": other, "tokenizer_mode": "HF", "revision": "main"})
    ]
    of_named = named.encode("Iron", add_special_tokens=False).ids
    assert ids == [own.encode("Iron", add_special_tokens=False).ids, of_named, of_named]


def test_a_model_without_a_tokenizer_is_told_in_one_sentence(tmp_path: Path, vllm_as_installed: None) -> None:
    with pytest.raises(ModelNotFound) as trouble:
        tokenizer_of(str(tmp_path), {})
    assert trouble.value.message.startswith(f"No tokenizer for '{tmp_path}': ")
    assert "\n" not in str(trouble.value)
