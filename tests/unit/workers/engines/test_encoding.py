"""Text to tokens, with real tokenizers of the kinds that models have."""

from __future__ import annotations

import copy
import functools
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from contract import Mode, Prompt
from contract.prompts import turns_of
from contract.settings import load_settings
from contract.spec import Sampling
from contract.turns import one_turn
from tests.support import ROOT, make_question, make_spec
from workers.engines import encoding
from workers.engines.base import GenerateRequest, Request, ScoreRequest
from workers.engines.encoding import MOST_KNOWN_LINES, Encoded, PromptEncoder
from workers.engines.engine_thread import EngineThread
from workers.engines.packaged import prepare
from workers.engines.vllm import VllmEngine
from workers.scoring.letter import ask

TEXTS = [json.loads(line)["text"] for line in (ROOT / "demo" / "corpus.jsonl").read_text().splitlines()]


def sentencepiece() -> Tokenizer:
    """As Llama 2 has it: no words, every text begins with a space, a BOS before it."""
    made = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>"))
    made.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    made.decoder = decoders.Replace("▁", " ")
    made.train_from_iterator(TEXTS, trainers.BpeTrainer(vocab_size=800, special_tokens=["<unk>", "<s>"]))
    made.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return made


def unigram() -> Tokenizer:
    """As T5 has it: the likeliest pieces, and an EOS at the end."""
    made = Tokenizer(models.Unigram())
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    special = ["<unk>", "</s>"]
    made.train_from_iterator(TEXTS, trainers.UnigramTrainer(vocab_size=500, special_tokens=special, unk_token="<unk>"))
    made.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    return made


def runs_of_anything() -> Tokenizer:
    """No words at all: a token may span lines."""
    made = Tokenizer(models.BPE(unk_token="<unk>"))
    lines = ["\n".join(text.split()) for text in TEXTS]
    made.train_from_iterator(lines, trainers.BpeTrainer(vocab_size=800, special_tokens=["<unk>"]))
    return made


def sentencepiece_with_eos() -> Tokenizer:
    """As `add_eos_token: true` makes it."""
    made = sentencepiece()
    made.add_special_tokens(["</s>"])
    end = made.token_to_id("</s>")
    made.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 1), ("</s>", end)]
    )
    return made


@functools.cache
def tokenizer(name: str) -> Any:
    from transformers import PreTrainedTokenizerFast

    if name == "packaged":
        return PreTrainedTokenizerFast(tokenizer_file=str(Path(prepare("smollm2-135m-instruct")) / "tokenizer.json"))
    made = {
        "sentencepiece": sentencepiece,
        "sentencepiece with eos": sentencepiece_with_eos,
        "unigram": unigram,
        "runs of anything": runs_of_anything,
    }[name]()
    return PreTrainedTokenizerFast(tokenizer_object=made)


LINES = st.lists(
    st.one_of(
        st.sampled_from(
            ["Question: What is it?", "Answer:", "A. gold", "  indented", "", "Antwort :", "问题：", "\t", "is"]
        ),
        st.text(max_size=12),
    ),
    min_size=1,
    max_size=5,
)
CONTINUATIONS = st.lists(
    st.one_of(st.sampled_from([" A", " B", " gold", "gold", ":", "\n", " is"]), st.text(min_size=1, max_size=6)),
    min_size=1,
    max_size=4,
)


def ids(name: str, texts: list[str]) -> list[list[int]]:
    """The tokens of `texts` with the special ones before them, but without the EOS behind."""
    found: list[list[int]] = tokenizer(name)(texts)["input_ids"]
    end = tokenizer(name).convert_tokens_to_ids("</s>")
    return [each[:-1] if each[-1:] == [end] else each for each in found]


@pytest.mark.parametrize("name", ["packaged", "sentencepiece", "sentencepiece with eos", "unigram", "runs of anything"])
@given(lines=LINES, continuations=CONTINUATIONS, keeps_space=st.booleans())
def test_a_continuation_has_the_tokens_that_it_has_behind_the_whole_prompt(
    name: str, lines: list[str], continuations: list[str], *, keeps_space: bool
) -> None:
    prompt = "\n".join(lines)
    encoder = PromptEncoder(tokenizer(name))
    request = ScoreRequest(one_turn(prompt), tuple(continuations), keeps_space=keeps_space)
    (found,) = encoder.encode([request])
    assert isinstance(found, Encoded)
    assert encoder.encode([request, request]) == [found, found]
    bare = prompt if keeps_space else prompt.rstrip() or prompt
    prompt_ids, *wholes = ids(name, [bare, *(prompt + each for each in continuations)])
    shared = next(n for n in range(len(prompt_ids), -1, -1) if all(each[:n] == prompt_ids[:n] for each in wholes))
    assert found.prompt == prompt_ids[:shared]
    assert found.tails == [whole[shared:] for whole in wholes]


@pytest.mark.parametrize(
    ("prompt", "merges"),
    [("x\nAB", [("\n", "A"), ("A", "B"), ("B", "b")]), ("x\nA", [("A", "b"), ("\n", "Ab")])],
    ids=["where the prompt ends", "where a choice begins"],
)
def test_a_token_that_spans_the_last_line_break_is_the_one_that_the_whole_text_has(
    prompt: str, merges: list[tuple[str, str]]
) -> None:
    from transformers import PreTrainedTokenizerFast

    tokens = [*"x\nABbc", *("".join(each) for each in merges)]
    made = Tokenizer(models.BPE(vocab={token: at for at, token in enumerate(tokens)}, merges=merges))
    there = PreTrainedTokenizerFast(tokenizer_object=made)
    (found,) = PromptEncoder(there).encode([ScoreRequest(one_turn(prompt), ("b", "c"))])
    assert isinstance(found, Encoded)
    assert [found.prompt + tail for tail in found.tails] == there([prompt + "b", prompt + "c"])["input_ids"]


@pytest.mark.parametrize("space", ["\n", "\n\n", "  ", " \n"])
@pytest.mark.parametrize("name", ["packaged", "sentencepiece"])
def test_white_space_at_a_prompts_end_is_scored_with_every_choice_as_by_lm_evaluation_harness(
    name: str, space: str
) -> None:
    there, bare, choices = tokenizer(name), "Question: What is it?", (" gold", " silver and gold")
    request = ScoreRequest(one_turn(bare + space), choices)
    (found,) = PromptEncoder(there).encode([request])
    assert isinstance(found, Encoded)
    # `_encode_pair`: the space moves from the context to the continuation, and what follows the context's tokens counts
    context, *wholes = there([bare, *(bare + space + each for each in choices)])["input_ids"]
    assert found.prompt == context
    assert found.tails == [whole[len(context) :] for whole in wholes]
    assert found.continuations == tuple(space + each for each in choices)


@pytest.mark.parametrize(
    ("named", "start"),
    [({"bos_token": "<s>", "eos_token": "</s>"}, "<s>"), ({"eos_token": "</s>"}, "</s>"), ({}, None)],
    ids=["bos", "eos", "neither"],
)
def test_choices_without_a_prompt_follow_the_token_that_starts_a_text(named: dict[str, str], start: str | None) -> None:
    from transformers import PreTrainedTokenizerFast

    made = PreTrainedTokenizerFast(tokenizer_object=runs_of_anything(), **named)
    (found,) = PromptEncoder(made).encode([ScoreRequest(one_turn(""), (" iron", " gold"))])
    assert isinstance(found, Encoded)
    assert found.prompt == ([] if start is None else [made.convert_tokens_to_ids(start)])
    assert found.tails == made([" iron", " gold"], add_special_tokens=False)["input_ids"]


def test_labels_stay_single_tokens_behind_a_prompt_that_ends_in_a_line_break() -> None:
    spec = make_spec(
        mode=Mode.LETTER,
        prompt=Prompt(name="listed", text="{{ question }}\n{% for c in choices %}- {{ c }}\n{% endfor %}"),
    )
    question = make_question(1)
    (request,) = ask(question, turns_of(question, spec), spec)
    assert isinstance(request, ScoreRequest)
    assert request.prompt.endswith("\n")
    (found,) = PromptEncoder(tokenizer("packaged")).encode([request])
    assert isinstance(found, Encoded)
    assert [len(tail) for tail in found.tails] == [1, 1, 1, 1]


def test_a_text_is_written_behind_all_of_the_prompt() -> None:
    (found,) = PromptEncoder(tokenizer("packaged")).encode([GenerateRequest(one_turn("It is made of\n"), Sampling())])
    assert isinstance(found, Encoded)
    assert found.text == "It is made of\n"


def test_a_prompts_last_space_is_part_of_the_choices_that_it_makes_a_token_with() -> None:
    encoder, choices = PromptEncoder(tokenizer("packaged")), ("gold", "silver and gold", "4")
    spaced = encoder.encode([ScoreRequest(one_turn("It is made of "), choices)])
    bare = encoder.encode([ScoreRequest(one_turn("It is made of"), tuple(f" {each}" for each in choices))])
    assert [(each.prompt, each.tails) for each in spaced if isinstance(each, Encoded)] == [
        (each.prompt, each.tails) for each in bare if isinstance(each, Encoded)
    ]


@pytest.mark.parametrize("name", ["unigram", "sentencepiece with eos"])
def test_a_tokenizer_that_ends_every_text_with_eos_has_none_behind_a_prompt_or_a_choice(name: str) -> None:
    there, text = tokenizer(name), "It is made of"
    scores = ScoreRequest(one_turn(text), (" gold", " iron"))
    scored, written = PromptEncoder(there).encode([scores, GenerateRequest(one_turn(text), Sampling())])
    assert isinstance(scored, Encoded)
    assert isinstance(written, Encoded)
    end = there.convert_tokens_to_ids("</s>")
    assert there([text])["input_ids"] == [[*written.prompt, end]]
    wholes = [scored.prompt + tail for tail in scored.tails]
    assert there([f"{text} gold", f"{text} iron"])["input_ids"] == [[*whole, end] for whole in wholes]


class Counting:
    """A tokenizer that counts the characters it is given."""

    def __init__(self, inner: Any) -> None:
        self.inner, self.characters = inner, 0

    def __call__(self, texts: list[str], **options: Any) -> Any:
        self.characters += sum(map(len, texts))
        return self.inner(texts, **options)


def test_a_prompt_is_tokenised_once_however_many_choices_follow() -> None:
    counting = Counting(tokenizer("packaged"))
    prompt = "A long context. " * 100 + "\nQuestion: What is it?\nAnswer:"
    PromptEncoder(counting).encode([ScoreRequest(one_turn(prompt), (" gold", " silver", " iron", " lead"))])
    assert counting.characters < 1.1 * len(prompt)


def test_labels_are_tokenised_for_the_first_question_of_a_run_and_known_for_the_others() -> None:
    counting = Counting(tokenizer("packaged"))
    encoder = PromptEncoder(counting)
    prompts = [f"Question: What is {number}?\nAnswer:" for number in range(20)]
    encoder.encode([ScoreRequest(one_turn(prompts[0]), (" A", " B", " C", " D"))])
    counting.characters = 0
    encoder.encode([ScoreRequest(one_turn(each), (" A", " B", " C", " D")) for each in prompts])
    assert counting.characters == sum(map(len, prompts))


def test_an_encoder_does_not_keep_every_line_that_it_saw() -> None:
    encoder = PromptEncoder(tokenizer("packaged"))
    first = ScoreRequest(one_turn("Count.\nAnswer:"), (" one", " two"))
    before = encoder.encode([first])
    for number in range(3):
        requests = [
            ScoreRequest(one_turn("Count.\nAnswer:"), (f" {number}-{each}",)) for each in range(MOST_KNOWN_LINES)
        ]
        encoder.encode(requests)
    assert len(encoder._known_lines) <= 2 * MOST_KNOWN_LINES + 1
    assert encoder.encode([first]) == before


def asking(text: str) -> ScoreRequest:
    return ScoreRequest(one_turn(f"{text}\nAnswer:"), (" A", " B"))


@pytest.mark.parametrize(
    "request_", [asking("It is."), GenerateRequest(one_turn("It is.\n"), Sampling())], ids=["scores", "text"]
)
def test_what_is_kept_is_tokenised_no_second_time_and_then_forgotten(
    request_: Request, monkeypatch: pytest.MonkeyPatch
) -> None:
    counting = Counting(tokenizer("packaged"))
    encoder = PromptEncoder(counting)
    (measured,) = encoder.encode([request_])
    assert isinstance(measured, Encoded)
    monkeypatch.setattr(encoding, "MOST_KEPT_TOKENS", measured.tokens)
    for _ in range(2):  # measured for the size of its call, and for whether it fits
        encoder.keep([measured])
    counting.characters = 0
    assert encoder.encode([request_, request_]) == [measured, measured]
    assert counting.characters == 0
    assert encoder.encode([request_]) == [measured]
    assert counting.characters > 0


def test_other_choices_behind_a_kept_prompt_and_the_same_prompt_for_a_text_are_other_requests() -> None:
    kept = asking("It is.")
    others: list[Request] = [
        kept._replace(continuations=(" C", " D")),
        GenerateRequest(kept.turns, Sampling()),
        kept._replace(turns=one_turn("It is not.\nAnswer:")),
    ]
    encoder = PromptEncoder(tokenizer("sentencepiece"))
    encoder.keep(each for each in encoder.encode([kept]) if isinstance(each, Encoded))
    assert encoder.encode(others) == PromptEncoder(tokenizer("sentencepiece")).encode(others)


def test_of_requests_that_are_never_asked_an_encoder_keeps_the_latest(monkeypatch: pytest.MonkeyPatch) -> None:
    counting = Counting(tokenizer("packaged"))
    encoder = PromptEncoder(counting)
    requests = [asking(f"{number} " * 50) for number in range(10)]
    found = [each for each in encoder.encode(requests) if isinstance(each, Encoded)]
    monkeypatch.setattr(encoding, "MOST_KEPT_TOKENS", found[-2].tokens + found[-1].tokens)
    for _ in range(3):
        encoder.keep(found)
    counting.characters = 0
    assert encoder.encode(requests[-2:]) == found[-2:]
    assert counting.characters == 0
    assert encoder.encode(requests[:-2]) == found[:-2]
    assert counting.characters >= sum(len(each.prompt) for each in requests[:-2])


def test_vllm_tokenises_a_prompt_with_passages_once_for_its_call_its_fit_and_its_answer() -> None:
    counting = Counting(tokenizer("packaged"))
    engine = VllmEngine(load_settings())
    engine.encoder = PromptEncoder(counting)
    requests = [asking("It fits. " * 100), asking("It does not. " * 200)]
    fits, exceeds = (each.tokens for each in engine.encoder.encode(requests) if isinstance(each, Encoded))
    config = SimpleNamespace(max_model_len=fits)
    engine._owner = cast(EngineThread, SimpleNamespace(engine=SimpleNamespace(model_config=config)))
    counting.characters = 0
    assert engine.count_prompt_tokens(requests) == [fits, exceeds]
    excess = engine.excess_tokens(requests)
    assert excess[0] == 0 < excess[1]
    engine.encoder.encode(requests[:1])
    assert counting.characters == sum(len(each.prompt) for each in requests)


def test_the_digest_is_another_where_text_becomes_other_tokens_or_ends_elsewhere() -> None:
    plain, other = tokenizer("packaged"), tokenizer("unigram")
    templated = copy.deepcopy(plain)
    templated.chat_template = "{{ messages }}"
    digests = [PromptEncoder(each).digest() for each in (plain, other, templated)]
    assert len({*digests, PromptEncoder(plain).digest([2, 7])}) == 4
    assert PromptEncoder(plain).digest() == digests[0]
    assert PromptEncoder(object()).digest() == PromptEncoder(object()).digest()
