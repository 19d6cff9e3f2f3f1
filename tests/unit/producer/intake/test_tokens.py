"""Prompts are counted in the tokens of the model, or it is said why they cannot be."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import needed_package
from tests.unit.producer.conftest import Producer, WriteRows
from tests.unit.producer.intake.inspected import SIX


def test_tokens_are_counted_as_the_model_does(tmp_path: Path, write_rows: WriteRows, producer: Producer) -> None:
    tokenizers = needed_package("tokenizers")
    model = tokenizers.Tokenizer(tokenizers.models.WordLevel({"Question": 0, "?": 1}, unk_token="?"))
    model.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    (tmp_path / "model").mkdir()
    model.save(str(tmp_path / "model" / "tokenizer.json"))
    long = {"question": "one two three", "choices": ["a b", "c"], "answer": "A"}
    path = str(write_rows(long, {**long, "question": "one"}))

    found = producer.json("inspect", path, "--model", "model")

    assert found["tokens"] == {"p50": 3, "p95": 5, "p99": 5, "max": 5}, "Question: one two three Answer:"
    assert found["max_model_len"] == 7, "and the longest choice"
    assert producer.json("inspect", path, "--model", "model", "--set", "delimiter=' that is '")["max_model_len"] == 9
    by_letter = producer.json("inspect", path, "--model", "model", "--set", "mode=letter")
    assert by_letter["max_model_len"] == by_letter["tokens"]["max"] + 1


def test_a_text_is_counted_whole_where_the_tokenizer_was_stored_to_cut_and_fill_up(
    tmp_path: Path, write_rows: WriteRows, producer: Producer
) -> None:
    """As programs that train models leave it."""
    tokenizers = needed_package("tokenizers")
    model = tokenizers.Tokenizer(tokenizers.models.WordLevel({"Question": 0, "?": 1}, unk_token="?"))
    model.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    model.enable_truncation(4)
    model.enable_padding(length=4)
    (tmp_path / "model").mkdir()
    model.save(str(tmp_path / "model" / "tokenizer.json"))
    path = str(write_rows({"question": "one two three", "choices": ["a b", "c"], "answer": "A"}))
    assert producer.json("inspect", path, "--model", "model")["max_model_len"] == 7


def test_a_model_without_tokenizer_is_refused(tmp_path: Path, write_rows: WriteRows, producer: Producer) -> None:
    needed_package("tokenizers")
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "tokenizer.json").write_text("{}")

    result = producer("inspect", write_rows(*SIX), "--model", "model", exit_code=1)

    assert "no tokenizer for 'model'" in result.stderr


def test_a_folder_without_a_tokenizer_is_told_so_and_no_hub_is_asked(
    tmp_path: Path, write_rows: WriteRows, producer: Producer
) -> None:
    needed_package("tokenizers")
    (tmp_path / "model").mkdir()
    result = producer("inspect", write_rows(*SIX), "--model", "model", exit_code=1)
    assert "--model: the folder model has no tokenizer.json." in result.stderr


def test_the_home_of_a_user_who_does_not_exist_is_a_folder_that_does_not_exist(
    write_rows: WriteRows, producer: Producer
) -> None:
    needed_package("tokenizers")
    result = producer("inspect", write_rows(*SIX), "--model", "~no-such-user/model", exit_code=1)
    assert result.stderr.startswith("error: '~no-such-user/model' is not a local folder")


@pytest.mark.parametrize("words", [("inspect",), ("enqueue", "--dry-run")])
def test_an_unset_variable_is_not_taken_for_the_current_folder(producer: Producer, words: tuple[str, ...]) -> None:
    result = producer(*words, "", exit_code=1)
    assert result.stderr == "error: The name of the question file is empty. Name a file, a folder or a dataset.\n"
