"""Files or rows of several splits are never asked together: one is chosen with `--split`."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

from contract.errors import QuestionFileError
from tests.unit.producer.readers.folders import laid_out, mmlu, subjects
from tests.unit.producer.readers.reading import GOOD, questions_of


def test_of_several_splits_one_is_chosen(tmp_path: Path) -> None:
    path = mmlu(tmp_path)

    assert [each.question for each in questions_of(path, split="dev")] == [
        f"{name} dev {at}" for name in ("anatomy", "world_history") for at in range(2)
    ]
    assert subjects(path, split="dev") == ["anatomy", "world_history"]
    with pytest.raises(QuestionFileError, match=r"splits.*: dev \(2\), test \(2\)\. Choose one with --split NAME, or"):
        questions_of(path)
    with pytest.raises(QuestionFileError, match=r"no split 'tset' among dev \(2\), test \(2\)\. Did you mean 'test'"):
        questions_of(path, split="tset")
    assert len(questions_of(path, subset="*")) == 10, "whoever asks for all files gets them"
    assert len(subjects(path, subset="*")) == 4, "and can tell the splits apart"


@pytest.mark.parametrize(
    "names",
    [
        ("Train.jsonl", "Test.jsonl"),
        ("train_set.jsonl", "test_set.jsonl"),
        ("train.jsonl", "eval.jsonl"),
        ("train-00000-of-00001.jsonl", "test-00000-of-00001.jsonl"),
        ("Train/a.jsonl", "Test/a.jsonl"),
        ("train_data.jsonl", "test_data.jsonl"),
        ("capitals_Train_v2.jsonl", "capitals_test_v2.jsonl"),
        ("x/train-small.jsonl", "y/test-small.jsonl"),
    ],
)
def test_splits_are_not_asked_together_whatever_their_spelling(tmp_path: Path, names: tuple[str, str]) -> None:
    first, second = (json.dumps({**GOOD, "id": each, "question": each}) for each in names)
    path = laid_out(tmp_path, {names[0]: first, names[1]: second})

    with pytest.raises(QuestionFileError, match="several splits"):
        questions_of(path)
    (asked,) = questions_of(path, split="Train")
    assert (asked.question, asked.subject) == (names[0], None)
    assert len(questions_of(path, split="*")) == 2


@pytest.mark.parametrize(
    "names",
    [
        ("test_taking.jsonl", "test_design.jsonl"),
        ("test_taking.jsonl", "dev_economics.jsonl"),
        ("test_data.jsonl", "test-data.jsonl"),
        ("train_data.jsonl", "test_data.jsonl", "law.jsonl"),
        ("train_test_data.jsonl", "dev_test_data.jsonl"),
        ("a.jsonl", "b.jsonl"),
    ],
)
def test_a_word_within_a_name_is_no_split_unless_the_names_differ_in_nothing_else(
    tmp_path: Path, names: tuple[str, ...]
) -> None:
    path = laid_out(tmp_path, {each: json.dumps({**GOOD, "id": each, "question": each}) for each in names})

    assert len(questions_of(path)) == len(questions_of(path, split="*")) == len(names)
    with pytest.raises(QuestionFileError, match=r"has no split 'test', nor any other\. Remove --split"):
        questions_of(path, split="test")


def test_shards_of_one_split_are_no_subjects(tmp_path: Path) -> None:
    shards: dict[str, str | bytes] = {
        f"test-0000{at}-of-00002.jsonl": json.dumps({**GOOD, "id": f"q{at}"}) for at in range(2)
    }

    assert subjects(laid_out(tmp_path, shards)) == [None]


@pytest.mark.parametrize(
    "content",
    [
        json.dumps({"train": [{**GOOD, "id": "a"}], "test": [{**GOOD, "id": "b"}, {**GOOD, "id": "c"}]}),
        "id,question,A,B,answer,split\na,q,x,y,A,train\nb,q,x,y,A,test\nc,q,x,y,B,Test\n",
    ],
)
def test_the_splits_inside_one_file_are_not_asked_together_either(tmp_path: Path, content: str) -> None:
    path = tmp_path / "set"
    path.write_text(content)

    with pytest.raises(QuestionFileError, match=r"several splits.*: test \(2\), train \(1\)\. Choose one with --split"):
        questions_of(path)
    with pytest.raises(QuestionFileError, match=r"no split 'tset' among test .*Did you mean 'test'"):
        questions_of(path, split="tset")
    assert [each.id for each in questions_of(path, split="test")] == ["b", "c"]
    assert {each.subject for each in questions_of(path, split="test")} == {None}
    assert len(questions_of(path, split="*")) == 3


def column(*splits: str) -> str:
    rows = "".join(f"{split} {at}?,x,y,A,{split}\n" for at, split in enumerate(splits))
    return f"question,A,B,answer,split\n{rows}"


def lists(**splits: int) -> str:
    named = {split: [{**GOOD, "question": f"{split} {at}?"} for at in range(count)] for split, count in splits.items()}
    return json.dumps(named, indent=1)


@pytest.mark.parametrize(
    "files",
    [
        {"a.csv": column("train", "test"), "b.csv": column("test", "Train")},
        {"a.csv": column("train", "train"), "b.csv": column("test", "test")},
        {"a.json": lists(train=1, test=1), "b.json": lists(test=1, train=1)},
        {"one/q.json": lists(train=2, test=2)},
        {"a.csv": column("train", "test"), "b.json": lists(test=1, train=1)},
    ],
    ids=["columns", "a column per file", "lists", "one file", "both"],
)
@pytest.mark.parametrize("packed", [False, True])
def test_the_splits_inside_the_files_of_a_folder_are_not_asked_together_either(
    tmp_path: Path, files: dict[str, str | bytes], packed: bool
) -> None:
    """They were asked as one set, and `--split` said that there are none."""
    path = laid_out(tmp_path / "set", files)
    if packed:
        with zipfile.ZipFile(tmp_path / "set.zip", "w") as archive:
            for name, content in files.items():
                archive.writestr(name, content)
        path = tmp_path / "set.zip"

    with pytest.raises(QuestionFileError, match=r"several splits.*: test \(2\), train \(2\)\. Choose one with --split"):
        questions_of(path)
    with pytest.raises(QuestionFileError, match=r"no split 'tset' among test \(2\).*Did you mean 'test'"):
        questions_of(path, split="tset")
    chosen = questions_of(path, split="test")
    assert [each.question.split()[0] for each in chosen] == ["test", "test"]
    assert {each.subject for each in chosen} <= {"a", "b", None}, "the split is no subject"
    assert len(questions_of(path, split="*")) == 4


def test_files_that_are_named_after_splits_may_have_a_column_with_other_ones(tmp_path: Path) -> None:
    path = laid_out(tmp_path, {"train.csv": column("train", "dev"), "test.csv": column("eval", "test")})

    assert [each.question for each in questions_of(path, split="test")] == ["eval 0?", "test 1?"]


def test_a_column_called_split_with_other_things_in_it_parts_nothing(tmp_path: Path) -> None:
    path = tmp_path / "set.csv"
    path.write_text("question,A,B,answer,split\nq,x,y,A,easy\nr,x,y,A,hard\n")

    assert len(questions_of(path)) == 2
    assert [each.question for each in questions_of(path, split="hard")] == ["r"]


def test_what_stands_beside_a_split_in_a_column_is_a_split_too(tmp_path: Path) -> None:
    """Rows of `train` and `held_out` were asked together, as only one of the two is a usual name."""
    path = tmp_path / "set.csv"
    path.write_text(column("train", "held_out", ""))

    with pytest.raises(QuestionFileError, match=r"several splits; questions per split: held_out \(1\), train \(1\)"):
        questions_of(path)
    assert [each.question for each in questions_of(path, split="held_out")] == ["held_out 1?"]


def test_files_that_are_splits_themselves_are_no_subjects(tmp_path: Path) -> None:
    line = json.dumps(GOOD)
    path = laid_out(tmp_path, {"train.jsonl": line, "dev.jsonl": line, "test.jsonl": line})

    (question,) = questions_of(path, split="test")

    assert question.subject is None
