"""Folders and zips of question files, as MMLU, C-Eval and BIG-bench are handed out."""

from __future__ import annotations

import gzip
import json
import os
import zipfile
from pathlib import Path
from typing import Any

import pyarrow
import pytest

from contract.errors import QuestionFileError
from contract.spec import ExampleSelection
from producer.intake.survey import rejected_rows, survey
from producer.readers import HowToRead, Source
from producer.runs.parts import FewShotConfig
from tests.unit.producer.readers.reading import GOOD, questions_of

SPLITS = ("dev", "test")


def laid_out(folder: Path, files: dict[str, str | bytes]) -> Path:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


def csv_row(question: str, answer: str = "B") -> str:
    return f"{question},first,second,third,fourth,{answer}\n"


def mmlu(folder: Path) -> Path:
    """A set as MMLU is handed out: folders of splits, a file a subject, no header, no ids."""
    return laid_out(
        folder / "data",
        {
            f"{split}/{subject}_{split}.csv": "".join(csv_row(f"{subject} {split} {at}") for at in range(count))
            for split, count in (("dev", 2), ("test", 3))
            for subject in ("anatomy", "world_history")
        },
    )


def subjects(path: Path, **how: Any) -> list[str | None]:
    return sorted({each.subject for each in questions_of(path, **how)}, key=str)


def test_a_folder_is_one_set_whose_files_name_the_subjects(tmp_path: Path) -> None:
    source = Source(mmlu(tmp_path) / "test", "data/test")

    found = survey(source)

    asked = [(each.subject, each.question) for each in found.questions()]
    assert asked == [(name, f"{name} test {at}") for name in ("anatomy", "world_history") for at in range(3)]
    assert found.file.title == "MMLU CSV without header, 2 files"


def test_of_several_splits_one_is_chosen(tmp_path: Path) -> None:
    path = mmlu(tmp_path)

    assert [each.question for each in questions_of(path, split="dev")] == [
        f"{name} dev {at}" for name in ("anatomy", "world_history") for at in range(2)
    ]
    assert subjects(path, split="dev") == ["anatomy", "world_history"]
    with pytest.raises(QuestionFileError, match=r"several splits.*: dev \(2\), test \(2\)\. Choose one with --split"):
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
    ],
)
def test_a_word_within_a_name_is_no_split_unless_the_names_differ_in_nothing_else(
    tmp_path: Path, names: tuple[str, ...]
) -> None:
    path = laid_out(tmp_path, {each: json.dumps({**GOOD, "id": each, "question": each}) for each in names})

    assert len(questions_of(path)) == len(names)
    with pytest.raises(QuestionFileError, match="has no split 'test', nor any other"):
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


def test_a_split_that_neither_files_nor_rows_name_is_refused(tmp_path: Path) -> None:
    path = laid_out(tmp_path, {"a.jsonl": json.dumps(GOOD), "b.jsonl": json.dumps(GOOD)})

    with pytest.raises(QuestionFileError, match=r"has no split 'test', nor any other\. Remove --split"):
        questions_of(path, split="test")
    assert len(questions_of(path, split="*")) == 2


def test_files_that_are_named_after_splits_may_have_a_column_with_other_ones(tmp_path: Path) -> None:
    path = laid_out(tmp_path, {"train.csv": column("train", "dev"), "test.csv": column("eval", "test")})

    assert [each.question for each in questions_of(path, split="test")] == ["eval 0?", "test 1?"]


def test_a_column_called_split_with_other_things_in_it_parts_nothing(tmp_path: Path) -> None:
    path = tmp_path / "set.csv"
    path.write_text("question,A,B,answer,split\nq,x,y,A,easy\nr,x,y,A,hard\n")

    assert len(questions_of(path)) == 2
    assert [each.question for each in questions_of(path, split="hard")] == ["r"]


def test_files_that_are_splits_themselves_are_no_subjects(tmp_path: Path) -> None:
    line = json.dumps(GOOD)
    path = laid_out(tmp_path, {"train.jsonl": line, "dev.jsonl": line, "test.jsonl": line})

    (question,) = questions_of(path, split="test")

    assert question.subject is None


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["a.jsonl", "b.jsonl"], ["a", "b"]),
        (["set/a/task.jsonl", "set/b/task.jsonl"], ["a", "b"]),
        (["a/task.jsonl", "b/one/task.jsonl", "b/two/task.jsonl"], ["a", "b/one", "b/two"]),
        (["data/val/law_val.jsonl", "data/val/physics_val.jsonl"], ["law", "physics"]),
        (["cooking.jsonl", "driving_test.jsonl"], ["cooking", "driving_test"]),
        (["law.jsonl", "law.json"], ["law.json", "law.jsonl"]),
        (["only.jsonl"], [None]),
        (["LAW.JSONL", "art.jsonl"], ["LAW", "art"]),
        (["a.jsonl.gz", "b.jsonl"], ["a", "b"]),
        (["A.JSONL.GZ", "b.jsonl"], ["A", "b"]),
    ],
)
def test_what_tells_the_paths_apart_is_the_subject(
    tmp_path: Path, names: list[str], expected: list[str | None]
) -> None:
    line = json.dumps(GOOD).encode()
    path = laid_out(tmp_path, {each: gzip.compress(line) if each.lower().endswith("gz") else line for each in names})

    assert subjects(path) == expected


def test_a_folder_may_have_a_file_for_each_question(tmp_path: Path) -> None:
    options = [{"label": "A", "text": "x"}, {"label": "B", "text": "y"}]
    question = json.dumps({"question": "Which?", "options": options, "answer": "B"}, indent=1)
    path = laid_out(tmp_path, {"1.json": question, "2.json": question.replace("Which", "What")})

    assert [(each.question, each.right) for each in questions_of(path)] == [("Which?", ("B",)), ("What?", ("B",))]


def test_rows_that_name_their_subject_keep_it_and_ids_of_several_files_are_told_apart(tmp_path: Path) -> None:
    rows = [{**GOOD, "id": 1, "subject": "their own"}, {**GOOD, "id": 1}]
    path = laid_out(tmp_path, {"a.json": json.dumps(rows[:1]), "b.json": json.dumps(rows[1:])})

    assert [(each.id, each.subject) for each in questions_of(path)] == [("a-1", "their own"), ("b-1", "b")]


def test_without_the_subjects_that_rows_name_each_file_is_one(tmp_path: Path) -> None:
    rows = json.dumps([{**GOOD, "subject": "their own"}])
    files: dict[str, str | bytes] = {"law.json": rows, "art.json": rows}

    assert subjects(laid_out(tmp_path, files), mapping={"subject": ""}) == ["art", "law"]


def test_how_answers_are_meant_is_told_by_all_files_together(tmp_path: Path) -> None:
    # Alone, the second file's answers could count from 0.
    header = "question,A,B,C,answer\n"
    path = laid_out(tmp_path, {"a.csv": header + "q,x,y,z,3\n", "b.csv": header + "r,x,y,z,1\nr2,x,y,z,2\n"})

    assert [each.answer for each in questions_of(path)] == ["C", "A", "B"]


def test_some_files_are_chosen_by_name_or_pattern(tmp_path: Path) -> None:
    line = json.dumps(GOOD)
    path = laid_out(tmp_path, {"high_law.jsonl": line, "high_art.jsonl": line, "low_art.jsonl": line})

    assert subjects(path, subset="high_*") == ["high_art", "high_law"]
    assert len(questions_of(path, subset="low_art")) == 1
    with pytest.raises(QuestionFileError, match=r"no file 'low_ar' among high_art\.jsonl.*Did you mean 'low_art'"):
        questions_of(path, subset="low_ar")


@pytest.mark.parametrize("how", [{"subset": "anatomy_test"}, {"subset": "anatomy*", "split": "test"}])
def test_a_subset_has_the_subject_and_the_ids_that_it_has_in_the_whole(tmp_path: Path, how: dict[str, str]) -> None:
    rows = {f"{split}/{name}_{split}.jsonl": {**GOOD, "id": "1"} for split in SPLITS for name in ("anatomy", "law")}
    path = laid_out(tmp_path, {name: json.dumps(row) for name, row in rows.items()})

    whole = {each.id: each.subject for each in questions_of(path, split="test")}

    assert whole == {"anatomy-1": "anatomy", "law-1": "law"}
    assert {each.id: each.subject for each in questions_of(path, **how)} == {"anatomy-1": "anatomy"}


def test_a_subset_of_files_without_splits_has_the_names_of_the_whole(tmp_path: Path) -> None:
    line = json.dumps(GOOD)
    path = laid_out(tmp_path, {"set/cooking.jsonl": line, "set/driving_test.jsonl": line, "set/law.jsonl": line})

    assert subjects(path, subset="driving_test") == ["driving_test"]
    assert subjects(path, subset="law") == ["law"]


def test_a_subset_is_no_way_around_the_splits(tmp_path: Path) -> None:
    path = mmlu(tmp_path)

    with pytest.raises(
        QuestionFileError, match=r"several splits.*: dev \(1\), test \(1\)\. Choose one .* or all with --split '\*'"
    ):
        questions_of(path, subset="anatomy*")
    assert len(questions_of(path, subset="anatomy*", split="dev")) == 2
    assert len(questions_of(path, subset="anatomy*", split="*")) == 5
    assert subjects(path, subset="*_dev") == ["anatomy", "world_history"]


def test_examples_of_its_subject_are_found_for_a_subset(tmp_path: Path) -> None:
    path = mmlu(tmp_path)
    source = Source(path, "data", HowToRead(subset="anatomy_test.csv"))
    examples, _ = FewShotConfig(k=2, file=str(path), split="dev", selection=ExampleSelection.SUBJECT).load(source)
    assert examples

    (first, *_) = questions_of(path, subset="anatomy_test.csv")

    assert [each.question for each in examples.by_subject[first.subject]] == ["anatomy dev 0", "anatomy dev 1"]


def test_a_packed_file_of_a_folder_may_have_a_name_that_is_not_utf_8(tmp_path: Path) -> None:
    packed = pyarrow.Codec("zstd").compress(json.dumps(GOOD).encode(), asbytes=True)
    (tmp_path / os.fsdecode(b"Pr\xfcfung.jsonl.zst")).write_bytes(packed)
    assert len(questions_of(tmp_path)) == 1


def test_what_is_no_question_file_is_passed_over(tmp_path: Path) -> None:
    files: dict[str, str | bytes] = {"README.md": "# Read", ".cache/a.json": "{}", "q.jsonl": json.dumps(GOOD)}
    path = laid_out(tmp_path, files)

    assert len(questions_of(path)) == 1
    with pytest.raises(QuestionFileError, match=r"contains no question files\. Expected files that end in \.csv"):
        questions_of(laid_out(tmp_path / "other", {"README.md": "# Read"}))


def test_questions_behind_a_link_to_a_folder_are_not_left_out_in_silence(tmp_path: Path) -> None:
    line = json.dumps(GOOD)
    laid_out(tmp_path, {"set/law.jsonl": line, "elsewhere/art.jsonl": line, "pictures/x.png": ""})
    (tmp_path / "set/pictures").symlink_to(tmp_path / "pictures")
    (tmp_path / "set/.cache").symlink_to(tmp_path / "elsewhere")
    assert len(questions_of(tmp_path / "set")) == 1
    (tmp_path / "set/more").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(QuestionFileError, match=r"set: more is a link to a folder, and these are not followed\."):
        questions_of(tmp_path / "set")


def test_a_link_to_a_folder_whose_questions_are_read_is_not_refused(tmp_path: Path) -> None:
    laid_out(tmp_path, {"set/2026/law.jsonl": json.dumps(GOOD), "set/.stored/art.jsonl": json.dumps(GOOD)})
    (tmp_path / "set/latest").symlink_to("2026")
    (tmp_path / "set/itself").symlink_to(".")
    assert len(questions_of(tmp_path / "set")) == 1
    (tmp_path / "set/more").symlink_to(".stored")
    with pytest.raises(QuestionFileError, match=r"more is a link to a folder"):
        questions_of(tmp_path / "set")


def test_a_bad_row_is_named_with_its_file_and_line(tmp_path: Path) -> None:
    path = laid_out(tmp_path, {"a.csv": csv_row("q"), "b.csv": csv_row("r") + csv_row("s", "E") + csv_row("t")})
    source = Source(path, "set")

    with pytest.raises(QuestionFileError, match=r"set/b\.csv:2: field 'answer'"):
        survey(source)
    (row,) = rejected_rows(survey(source, skip_bad=True))
    assert (row["file"], row["line"]) == ("set/b.csv", 2)


def test_an_id_twice_in_one_file_is_named_with_that_file(tmp_path: Path) -> None:
    twice = "\n".join(json.dumps({**GOOD, "id": "one"}) for _ in range(2))
    path = laid_out(tmp_path, {"a.jsonl": json.dumps({**GOOD, "id": "one"}), "b.jsonl": twice})

    with pytest.raises(QuestionFileError, match=r"set/b\.jsonl:2: field 'id': 'b-one' is already used on line 1"):
        survey(Source(path, "set"))


def test_an_id_that_another_shard_has_too_is_named_with_the_other_shard(tmp_path: Path) -> None:
    """As of a dataset whose shards number their rows. It said that the line was in the same file."""
    shards: dict[str, str | bytes] = {
        f"test-0000{shard}-of-00002.jsonl": "".join(
            json.dumps({**GOOD, "id": at, "question": f"{shard} {at}?"}) + "\n" for at in range(2)
        )
        for shard in range(2)
    }
    path = laid_out(tmp_path, shards)

    with pytest.raises(QuestionFileError) as caught:
        survey(Source(path, "set"))

    assert (
        "set/test-00001-of-00002.jsonl:2: field 'id': '1' is already used on line 2 of set/test-00000-of-00002.jsonl."
    ) in str(caught.value)


def test_a_file_that_is_none_is_named(tmp_path: Path) -> None:
    path = laid_out(tmp_path, {"a.csv": csv_row("q"), "b.json": "nothing"})

    with pytest.raises(QuestionFileError, match=r"set/b\.json:1: found 'n' at the start of the file"):
        survey(Source(path, "set"))


def test_a_zip_of_several_files_is_read_like_a_folder(tmp_path: Path) -> None:
    path = mmlu(tmp_path)
    packed = tmp_path / "data.zip"
    with zipfile.ZipFile(packed, "w") as archive:
        for each in sorted(path.rglob("*.csv")):
            archive.write(each, each.relative_to(tmp_path))
        archive.writestr("__MACOSX/data/._anatomy.csv", b"\x00\x05")

    assert questions_of(packed, split="test") == questions_of(path, split="test")
    assert [each.question for each in questions_of(packed, subset="anatomy_dev.csv")] == [
        "anatomy dev 0",
        "anatomy dev 1",
    ]


def test_the_files_in_a_zip_may_be_packed_themselves(tmp_path: Path) -> None:
    """They were read as they are, and a byte of gzip was said to be no UTF-8."""
    rows = [json.dumps({**GOOD, "question": f"q{at}"}).encode() for at in range(3)]
    path = tmp_path / "set.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.jsonl.gz", gzip.compress(rows[0]))
        archive.writestr("b.jsonl.zst", pyarrow.compress(rows[1], codec="zstd", asbytes=True))
        archive.writestr("c.jsonl", rows[2])

    assert [(each.question, each.subject) for each in questions_of(path)] == [("q0", "a"), ("q1", "b"), ("q2", "c")]


def test_one_file_of_answers_is_not_for_several_of_questions(tmp_path: Path) -> None:
    answers = laid_out(tmp_path / "other", {"answers": "A\n"}) / "answers"
    path = laid_out(tmp_path / "set", {"a.jsonl": json.dumps(GOOD), "b.jsonl": json.dumps(GOOD)})

    with pytest.raises(QuestionFileError, match=r"has several files, but --answers is for a single one"):
        questions_of(path, answers=answers)


def race(folder: Path, **splits: dict[str, int]) -> Path:
    """A set as RACE is handed out: a `.txt` file for each article, in folders of difficulties, in folders of splits."""
    files: dict[str, str | bytes] = {}
    for split, levels in splits.items():
        for level, count in levels.items():
            for at in range(count):
                article = {
                    "answers": ["B", "A"],
                    "options": [["x", "y"], ["v", "w"]],
                    "questions": [f"{split} {level} {at} first?", f"{split} {level} {at} second?"],
                    "article": f"Article {at}.",
                    "id": f"{level}{at}.txt",
                }
                files[f"{split}/{level}/{at}.txt"] = json.dumps(article)
    return laid_out(folder / "RACE", files)


def test_the_folders_of_articles_are_their_subjects(tmp_path: Path) -> None:
    path = race(tmp_path, test={"high": 3, "middle": 1}, dev={"high": 1})

    found = questions_of(path, split="test")

    assert [(each.subject, each.id) for each in found] == [
        *(("high", f"high-high{at}.txt-{n}") for at in range(3) for n in (1, 2)),
        ("middle", "middle-middle0.txt-1"),
        ("middle", "middle-middle0.txt-2"),
    ]
    assert found[0].context == "Article 0."
    with pytest.raises(QuestionFileError, match=r"several splits.*: dev \(1\), test \(4\)"):
        questions_of(path)


def test_one_folder_of_articles_has_no_subjects(tmp_path: Path) -> None:
    path = race(tmp_path, test={"high": 3})

    found = questions_of(path / "test" / "high")

    assert [(each.subject, each.id) for each in found[:2]] == [(None, "high0.txt-1"), (None, "high0.txt-2")]


def test_texts_beside_question_files_are_passed_over_and_texts_alone_are_no_questions(tmp_path: Path) -> None:
    path = laid_out(tmp_path / "set", {"a.json": json.dumps([GOOD]), "b.txt": "{}", "c.txt": "Read me."})
    assert len(questions_of(path)) == 1
    (path / "a.json").unlink()
    (path / "b.txt").unlink()
    with pytest.raises(QuestionFileError, match="contains no question files"):
        questions_of(path)
