"""Folders and zips of question files, as MMLU, C-Eval and BIG-bench are handed out."""

from __future__ import annotations

import gzip
import json
import os
import zipfile
from pathlib import Path

import pyarrow
import pytest

from contract.errors import QuestionFileError
from contract.spec import ExampleSelection
from producer.intake.survey import rejected_rows, survey
from producer.readers import HowToRead, Source
from producer.runs.parts import FewShotConfig
from tests.unit.producer.readers.folders import csv_row, laid_out, mmlu, subjects
from tests.unit.producer.readers.reading import GOOD, questions_of

SPLITS = ("dev", "test")


def test_a_folder_is_one_set_whose_files_name_the_subjects(tmp_path: Path) -> None:
    source = Source(mmlu(tmp_path) / "test", "data/test")

    found = survey(source)

    asked = [(each.subject, each.question) for each in found.questions()]
    assert asked == [(name, f"{name} test {at}") for name in ("anatomy", "world_history") for at in range(3)]
    assert found.file.title == "MMLU CSV without header, 2 files"


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


def test_the_table_of_contents_of_a_zip_is_read_once_for_all_of_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was read anew for each file: with 5,000 of them, that took minutes."""
    path = tmp_path / "set.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for number in range(20):
            archive.writestr(f"{number}.jsonl", json.dumps({**GOOD, "question": f"q{number}"}))
    opened = []

    class Counted(zipfile.ZipFile):
        def __init__(self, file: Path) -> None:
            opened.append(file)
            super().__init__(file)

    monkeypatch.setattr(zipfile, "ZipFile", Counted)

    assert len(questions_of(path)) == 20
    assert opened == [path]


def test_a_zip_that_has_changed_is_read_anew(tmp_path: Path) -> None:
    path = tmp_path / "set.zip"
    for texts in (["one", "two"], ["three", "four", "five"]):
        with zipfile.ZipFile(path, "w") as archive:
            for text in texts:
                archive.writestr(f"{text}.jsonl", json.dumps({**GOOD, "question": text}))

        assert sorted(each.question for each in questions_of(path)) == sorted(texts)


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
