"""Servers whose tokens are not what they seem: which of them are a choice's, and which are the ones that are listed."""

from __future__ import annotations

import re
from typing import Any

import pytest

from contract.spec import Chat, ChatTemplate
from contract.turns import one_turn
from tests.unit.workers.engines.openai.server import LETTERS, Script, error_of, logprob, started, weigh
from workers.engines.base import ScoreRequest

pytestmark = pytest.mark.usefixtures("short_pauses")

CHOICES = ScoreRequest(one_turn("What is four?"), (" two and two", " three", " a prime number"))
IN_CHAT = Chat(ChatTemplate.ALWAYS)


class StartsTexts(Script):
    """As llama-cpp-python: counts the token that starts a text, and does not echo it."""

    def answer(self, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        status, answer = super().answer(path, body)
        if "usage" in answer:
            answer["usage"]["prompt_tokens"] += 1
        return status, answer


class LagsBehind(Script):
    """As llama-cpp-python with a model that has no such token: echoes of each token what it is as the one behind it."""

    def answer(self, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        status, answer = super().answer(path, body)
        if body.get("echo") and "choices" in answer:
            found = answer["choices"][0]["logprobs"]
            ends = range(2, len(found["tokens"]) + 1)
            found["token_logprobs"] = [
                None,
                *(logprob(found["tokens"][:end], found["tokens"][end - 1]) for end in ends),
            ]
        return status, answer


class SkipsSome(Script):
    """Echoes the log-probabilities of some tokens only."""

    def answer(self, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        status, answer = super().answer(path, body)
        if body.get("echo") and "prime" in body["prompt"]:
            found = answer["choices"][0]["logprobs"]
            answer["choices"][0]["logprobs"] = {name: values[2:] for name, values in found.items()}
        return status, answer


class Merges(Script):
    """As Llama 3's tokenizer: a bracket and letters behind it may be one token, and a colon and a line break."""

    def tokens(self, said: list[str]) -> list[str]:
        return re.findall(r"\([a-zA-Z]{1,3}|:\n|\s?\w+|\s?[^\w\s]|\s", "".join(said))


class MergesAnyScript(Script):
    """As Qwen's and Llama 3's tokenizers: a punctuation mark and a letter behind it may be one token, in any script."""

    def tokens(self, said: list[str]) -> list[str]:
        return re.findall(r"[^\w\s]\w|\w|[^\w\s]|\s", "".join(said))


class OpensWithSpace(Script):
    """As the chat templates of Llama 2 and Mistral: a space before what the model says, which is part of its token."""

    def tokens(self, said: list[str]) -> list[str]:
        return super().tokens([" ".join(said)])

    def likeliest(self, tokens: list[str], *, in_chat: bool) -> list[tuple[str, float]]:
        spaced = super().likeliest(tokens, in_chat=False)
        return [*spaced[:18], ("A", -12.0), ("B", -13.0)] if in_chat else spaced


class DropsSpaces(Script):
    """As servers that decode each token of a SentencePiece model alone: " A" and "A" are both listed as "A"."""

    def likeliest(self, tokens: list[str], *, in_chat: bool) -> list[tuple[str, float]]:  # noqa: ARG002
        spaced = super().likeliest(tokens, in_chat=False)
        return [(each.strip(), value) for each, value in spaced[:10]] + [
            (each.strip(), -20.0) for each, _ in spaced[:10]
        ]

    def tokens(self, said: list[str]) -> list[str]:
        return [token for text in said for token in re.findall(r" ?\w+|[^\w\s]", text)]


class ListsLogits(Script):
    """As vLLM with --logprobs-mode raw_logits."""

    def likeliest(self, tokens: list[str], *, in_chat: bool) -> list[tuple[str, float]]:
        return [(token, value + 15) for token, value in super().likeliest(tokens, in_chat=in_chat)]


def test_a_server_that_counts_a_token_which_it_does_not_echo_gives_the_tokens_of_the_choices() -> None:
    with started(StartsTexts()) as engine:
        (completion,) = engine.generate([CHOICES])
    assert completion.error is None
    assert completion.logprobs == pytest.approx([weigh(CHOICES.prompt, each) for each in CHOICES.continuations])
    assert completion.token_counts == (3, 1, 3)


def test_a_server_whose_echo_contradicts_the_tokens_that_it_lists_is_not_asked_to_echo() -> None:
    with started(LagsBehind()) as engine:
        (completion,) = engine.generate([CHOICES])
        assert not engine.describe()["offers"].get("plain_echo")
    assert "is not among the 20 likeliest next tokens" in error_of(completion).message


def test_an_echo_that_lacks_tokens_is_no_answer() -> None:
    with started(SkipsSome()) as engine:
        (completion,) = engine.generate([CHOICES])
    assert "log-probabilities of 4 of 6 tokens" in error_of(completion).message


def test_a_choice_whose_start_is_in_one_token_with_the_prompts_end_fails_with_the_remedy() -> None:
    with started(Merges()) as engine:
        (completion,) = engine.generate([ScoreRequest(one_turn("Which is it?("), ("Apple pie)",))])
    assert "'Apple pie)' is 'le pie)' in the tokens behind the prompt" in error_of(completion).message
    assert "change delimiter or the prompt's end" in error_of(completion).message


@pytest.mark.parametrize(
    ("prompt", "choice", "behind"),
    [
        ("法国的首都是：", "巴黎", "黎"),
        ("Столица —", "Париж", "ариж"),
        ("答案是（", "东京 Tokyo", "京 Tokyo"),
        ("राजधानी:", "पेरिस", "ेरिस"),
    ],
)
def test_a_start_that_is_in_one_token_with_the_prompts_end_is_missed_in_any_script(
    prompt: str, choice: str, behind: str
) -> None:
    """Beyond ASCII, such a choice was scored without its beginning."""
    with started(MergesAnyScript(chat=False)) as engine:
        (completion,) = engine.generate([ScoreRequest(one_turn(prompt), (choice,))])
    assert f"{choice!r} is {behind!r} in the tokens behind the prompt" in error_of(completion).message


def test_white_space_that_is_in_one_token_with_the_prompts_end_is_no_part_of_a_choice() -> None:
    with started(Merges()) as engine:
        (completion,) = engine.generate([ScoreRequest(one_turn("Answer:\n"), ("Paris", "the river Seine"))])
    assert completion.error is None
    assert completion.token_counts == (1, 3), "as in lm-evaluation-harness, which counts from the prompt's own tokens"


@pytest.mark.parametrize(
    ("choice", "tokens"),
    [
        (" müsli ½", [" m", "�", "�", "sli", " ", "½"]),
        (" müsli ½", [" m", "", "ü", "sli", " ½"]),
        (" müsli", ["m", "<0xC3>", "<0xBC>", "sli"]),
        (" müsli", ["Ġm", "Ã¼", "s", "li"]),
        (" müsli", [" m", "bytes:\\xc3", "bytes:\\xbc", "sli"]),
        (" müsli", ["token_id:12", "token_id:7"]),
        (" Ａ㎏", [" A", "kg"]),
        (" Ａ㎏", [" �", "�", "�", "�"]),
        (" a\tb", [" a", "<0x09>", "b"]),
        ("巴黎", ["巴", "黎"]),
        (" 巴黎 北京", ["▁", "巴黎", "▁北京"]),
        ("巴黎", ["", "", "", "黎"]),
        ("巴黎", ["�", "�", "黎"]),
        ("巴黎", ["<0xE5>", "<0xB7>", "<0xB4>", "黎"]),
        ("巴黎", ["å·´", "é»İ"]),
        ("巴黎", [" ⁇ ", "黎"]),
        ("\ufeff巴黎", ["巴", "黎"]),
        ("e\u0301té", ["é", "te\u0301"]),
    ],
)
def test_tokens_that_cannot_be_read_one_by_one_are_no_reason_to_refuse_a_choice(choice: str, tokens: list[str]) -> None:
    class Writes(Script):
        def tokens(self, said: list[str]) -> list[str]:
            (text,) = said
            before, there, _ = text.partition(choice)
            return [*super().tokens([before]), *(tokens if there else [])]

    with started(Writes(chat=False)) as engine:
        (completion,) = engine.generate([ScoreRequest(one_turn("Breakfast:"), (choice,))])
    assert completion.error is None
    assert completion.token_counts == (len(tokens),)


def test_labels_are_one_kind_of_token_where_the_template_puts_a_space_before_them() -> None:
    """Two of them, without the space, are listed among the likeliest tokens: as such, they are hardly likely."""
    with started(OpensWithSpace()) as engine:
        (completion,) = engine.generate([LETTERS._replace(chat=IN_CHAT)])
    assert completion.error is None
    assert completion.logprobs == pytest.approx([weigh(LETTERS.prompt, each) for each in LETTERS.continuations])


def test_the_space_that_a_template_puts_before_labels_may_depend_on_its_variables() -> None:
    class Sometimes(OpensWithSpace):
        def answer(self, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
            self.opens = bool(body.get("chat_template_kwargs"))
            return super().answer(path, body)

        def tokens(self, said: list[str]) -> list[str]:
            return super().tokens(said) if self.opens else Script.tokens(self, said)

    told = LETTERS._replace(chat=Chat(ChatTemplate.ALWAYS, {"spaced": True}))
    with started(Sometimes()) as engine:
        (completion,) = engine.generate([told])
    assert completion.logprobs == pytest.approx([weigh(LETTERS.prompt, each) for each in LETTERS.continuations])


@pytest.mark.parametrize("chat", [Chat(), IN_CHAT])
def test_listed_tokens_are_not_used_where_the_server_drops_the_spaces_that_tell_them_apart(chat: Chat) -> None:
    labels = ScoreRequest(one_turn("Which letter comes first?("), ("A", "B", "C", "D"), chat)
    with started(DropsSpaces()) as engine:
        (completion,) = engine.generate([labels])
    before = DropsSpaces().tokens([labels.prompt])
    assert completion.logprobs == pytest.approx([logprob(before, each) for each in labels.continuations])


def test_numbers_that_are_no_log_probabilities_are_not_used() -> None:
    with started(ListsLogits(echo=False)) as engine:
        (completion,) = engine.generate([LETTERS])
    assert "returns no log-probabilities for grader" in error_of(completion).message


def test_next_tokens_are_listed_without_what_the_model_recommends_for_texts() -> None:
    """Some versions of vLLM list log-probabilities after the penalties of its generation_config.json."""
    script = Script(context=500)
    with started(script) as engine:
        engine.generate([LETTERS])
    first = script.asked[0]
    assert (first["repetition_penalty"], first["top_k"], first["min_p"]) == (1.0, -1, 0.0)
