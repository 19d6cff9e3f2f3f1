"""Datasets of Hugging Face: saved to disk, or the folder of a repository."""

from __future__ import annotations

import gzip
import logging
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from contract.errors import InputError, QuestionFileError, RunConfigError
from producer.readers import HowToRead, Source, understand
from producer.runs.parts import FewShotConfig
from tests.support import needed_package
from tests.unit.producer.readers.reading import JSONL, questions


def test_images_of_a_dataset_are_not_decoded_and_do_not_change_from_one_reading_to_the_next(tmp_path: Path) -> None:
    """Each reading decoded every image and found another address in memory, so that no run was ever resumed."""
    datasets = needed_package("datasets")
    features = datasets.Features(
        {
            "question": datasets.Value("string"),
            "choices": datasets.List(datasets.Value("string")),
            "answer": datasets.Value("int64"),
            "image": datasets.Image(),
            "pages": datasets.List({"scan": datasets.Image(), "number": datasets.Value("int64")}),
            "more": datasets.Json(),
        }
    )
    # Decoding it would fail.
    image = {"bytes": b"no image", "path": "x.png"}
    row = {
        "question": "q",
        "choices": ["x", "y"],
        "answer": 1,
        "image": image,
        "pages": [{"scan": image, "number": 1}],
        "more": {"level": 3},
    }
    datasets.Dataset.from_list([row], features=features).save_to_disk(tmp_path / "saved")

    first, second = (questions(understand(Source(tmp_path / "saved", "saved"))) for _ in range(2))

    shown = '{"bytes":"<8 bytes>","path":"x.png"}'
    assert first == second
    assert first[0].metadata == {
        "image": shown,
        "pages": f'[{{"scan":{shown},"number":1}}]',
        "more": '{"level":3}',
    }


def test_questions_inside_the_rows_of_a_dataset_are_found_as_in_any_other_file(tmp_path: Path) -> None:
    """Articles were split and logs unwrapped in JSON only: in a folder of Parquet, their rows were refused."""
    needed_package("datasets")
    article = {"article": "Text.", "questions": ["q0", "q1"], "options": [["x", "y"]] * 2, "answers": ["B", "A"]}
    log = {"doc": {"question": "q", "choices": ["x", "y"], "answer": 1}, "score": 0.5}
    (tmp_path / "articles").mkdir()
    (tmp_path / "logs").mkdir()
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist([article]), tmp_path / "articles" / "all.parquet")
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist([log]), tmp_path / "logs" / "all.parquet")

    def found(path: str) -> list[tuple[str, str | None, tuple[str, ...]]]:
        return [
            (each.question, each.context, each.right) for each in questions(understand(Source(tmp_path / path, path)))
        ]

    assert found("articles") == found("articles/all.parquet") == [("q0", "Text.", ("B",)), ("q1", "Text.", ("A",))]
    assert found("logs") == found("logs/all.parquet") == [("q", None, ("B",))]


def test_a_saved_dataset_is_read_by_its_folder(tmp_path: Path) -> None:
    datasets = needed_package("datasets")
    features = datasets.Features(
        {
            "question": datasets.Value("string"),
            "choices": datasets.Sequence(datasets.Value("string")),
            "answer": datasets.ClassLabel(names=["A", "B"]),
        }
    )
    rows = [{"question": f"q{n}", "choices": ["x", "y"], "answer": (1, 0, -1)[n]} for n in range(3)]
    one = datasets.Dataset.from_list(rows, features=features)
    datasets.DatasetDict({"train": one.select([0]), "test": one}).save_to_disk(tmp_path / "saved")
    one.save_to_disk(tmp_path / "one")

    def found(folder: str, split: str = "") -> list[tuple[str, ...]]:
        return [each.right for each in questions(understand(Source(tmp_path / folder, folder, HowToRead(split=split))))]

    assert found("saved", "test") == found("one") == [("B",), ("A",), ()]
    assert found("saved", "train") == [("B",)]
    with pytest.raises(QuestionFileError, match=r"2 splits: train, test\. Choose one with --split"):
        found("saved")


def test_a_saved_dataset_is_asked_for_no_part_that_it_has_not(tmp_path: Path) -> None:
    datasets = needed_package("datasets")
    rows = [{"question": "q", "choices": ["x", "y"], "answer": 1}]
    datasets.Dataset.from_list(rows).save_to_disk(tmp_path / "plain")
    datasets.Dataset.from_list(rows, split="validation").save_to_disk(tmp_path / "dev")
    datasets.DatasetDict({"test": datasets.Dataset.from_list(rows)}).save_to_disk(tmp_path / "all")

    def asked(folder: str, **how: Any) -> list[tuple[str, ...]]:
        return [each.right for each in questions(understand(Source(tmp_path / folder, folder, HowToRead(**how))))]

    assert asked("dev", split="validation") == asked("plain") == asked("dev") == [("B",)]
    with pytest.raises(QuestionFileError, match=r"dev: is only the split 'validation': it has no split 'test'"):
        asked("dev", split="test")
    with pytest.raises(QuestionFileError, match=r"plain: is a saved dataset without splits: it has no split 'test'"):
        asked("plain", split="test")
    for folder in ("plain", "all"):
        with pytest.raises(QuestionFileError, match=rf"{folder}: is a saved dataset: it has no subset 'law'"):
            asked(folder, subset="law")


def test_examples_of_another_split_than_the_saved_one_are_refused(tmp_path: Path) -> None:
    datasets = needed_package("datasets")
    rows = [{"question": f"q{n}", "choices": ["x", "y"], "answer": n} for n in range(2)]
    datasets.Dataset.from_list(rows, split="test").save_to_disk(tmp_path / "saved")
    examples = FewShotConfig(k=1, file=str(tmp_path / "saved"), split="dev")

    with pytest.raises(RunConfigError, match=r"is only the split 'test': .* no split 'dev'\. Remove few_shot\.split"):
        examples.load(None)


def test_a_datasets_answers_may_stand_in_a_file_of_their_own(tmp_path: Path) -> None:
    datasets = needed_package("datasets")
    rows = [{"goal": f"q{n}", "sol1": "x", "sol2": "y", "label": -1} for n in range(2)]
    datasets.Dataset.from_list(rows).save_to_disk(tmp_path / "saved")
    labels = tmp_path / "labels.lst"
    labels.write_text("1\n0\n")
    how = HowToRead(answers=labels)

    file = understand(Source(tmp_path / "saved", "saved", how))

    assert [each.right for each in questions(file)] == [("B",), ("A",)]
    assert file.fields.answer == (str(labels),)
    labels.write_text("1\n")
    with pytest.raises(QuestionFileError, match="fewer answers than questions: 1 for 2"):
        list(understand(Source(tmp_path / "saved", "saved", how)).rows())


def test_a_datasets_repository_is_read_by_its_folder(tmp_path: Path) -> None:
    needed_package("datasets")
    (tmp_path / "set" / "data").mkdir(parents=True)
    rows = [{"question": "q", "choices": ["x", "y"], "answer": 1}]
    pyarrow.parquet.write_table(
        pyarrow.Table.from_pylist(rows), tmp_path / "set" / "data" / "test-00000-of-00001.parquet"
    )

    (question,) = questions(understand(Source(tmp_path / "set", "set", HowToRead(split="test"))))

    assert question.right == ("B",)


def test_a_column_names_the_splits_of_a_dataset_that_has_none_of_its_own(tmp_path: Path) -> None:
    """The library calls all its rows `train`: they were asked together, with `--split train`, too."""
    datasets = needed_package("datasets")
    rows = [
        {"question": split, "choices": ["x", "y"], "answer": 1, "split": split} for split in ("train", "test", "test")
    ]
    for folder, file in (("plain", "all"), ("named", "test-00000-of-00001")):
        (tmp_path / folder).mkdir()
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / folder / f"{file}.parquet")
    datasets.Dataset.from_list(rows).save_to_disk(tmp_path / "saved")

    def asked(folder: str, split: str = "") -> list[str]:
        return [
            each.question for each in questions(understand(Source(tmp_path / folder, folder, HowToRead(split=split))))
        ]

    for folder in ("plain", "saved"):
        with pytest.raises(QuestionFileError, match=r"several splits; questions per split: test \(2\), train \(1\)"):
            asked(folder)
        assert asked(folder, "test") == ["test", "test"]
        assert asked(folder, "train") == ["train"]
        assert asked(folder, "*") == ["train", "test", "test"]
    assert asked("named") == asked("named", "test") == ["train", "test", "test"], "its own split counts alone"


def test_a_column_of_other_things_leaves_a_dataset_the_only_split_that_it_has(tmp_path: Path) -> None:
    """`--split train` was refused: no split 'train' among hard, easy."""
    needed_package("datasets")
    rows = [{"question": each, "choices": ["x", "y"], "answer": 1, "Split": each} for each in ("hard", "easy")]
    (tmp_path / "set").mkdir()
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "set" / "train-00000-of-00001.parquet")
    for split, found in (("", ["hard", "easy"]), ("train", ["hard", "easy"]), ("easy", ["easy"])):
        source = Source(tmp_path / "set", "set", HowToRead(split=split))
        assert [each.question for each in questions(understand(source))] == found


def test_a_column_of_lists_names_no_splits_of_a_dataset(tmp_path: Path) -> None:
    datasets = needed_package("datasets")
    row = {"question": "q", "choices": ["x", "y"], "answer": 1, "split": ["train", "test"]}
    datasets.Dataset.from_list([row]).save_to_disk(tmp_path / "saved")
    (question,) = questions(understand(Source(tmp_path / "saved", "saved")))
    assert question.question == "q"


def test_files_that_would_be_no_part_of_a_dataset_are_named_instead_of_left_out(tmp_path: Path) -> None:
    """Of files of which one is called after a split, as `test_taking` is, the library reads only that one."""
    needed_package("datasets")
    for name in ("anatomy", "test_taking"):
        rows = [{"question": name, "choices": ["x", "y"], "answer": 1}]
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / f"{name}.parquet")
    (tmp_path / "law.jsonl.gz").write_bytes(gzip.compress(JSONL))
    (tmp_path / "dataset_infos.json").write_text("{}")

    with pytest.raises(QuestionFileError, match=r"leave out 2 files: anatomy\.parquet, law\.jsonl\.gz\. Name one file"):
        list(understand(Source(tmp_path, "set")).rows())

    (tmp_path / "law.jsonl.gz").unlink()
    (tmp_path / "test_taking.parquet").rename(tmp_path / "taking.parquet")
    assert [each.question for each in questions(understand(Source(tmp_path, "set")))] == ["anatomy", "test_taking"]


def test_a_datasets_card_may_say_which_files_are_read_and_its_subsets_are_told(tmp_path: Path) -> None:
    needed_package("datasets")
    for name in ("law", "art", "raw"):
        rows = [{"question": name, "choices": ["x", "y"], "answer": 1}]
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / f"{name}.parquet")
    subsets = "".join(f"- config_name: {name}\n  data_files: {name}.parquet\n" for name in ("law", "art"))
    (tmp_path / "README.md").write_text(f"---\nconfigs:\n{subsets}---\n")

    (question,) = questions(understand(Source(tmp_path, "set", HowToRead(subset="law"))))

    assert question.question == "law"
    with pytest.raises(QuestionFileError, match=r"Config name is missing.*\['law', 'art'\]\. Check its files"):
        list(understand(Source(tmp_path, "set")).rows())


def test_nobody_whose_folder_of_a_dataset_is_damaged_is_sent_to_the_network_or_to_that_folder(tmp_path: Path) -> None:
    needed_package("datasets")
    (tmp_path / "test.parquet").write_bytes(b"PAR1, and no more")

    with pytest.raises(QuestionFileError, match="cannot load a dataset from the folder: Parquet magic") as trouble:
        understand(Source(tmp_path, "repository"))

    assert trouble.value.hint == "Check its files and --subset."


def test_what_libraries_log_of_a_dataset_is_printed_once(tmp_path: Path) -> None:
    needed_package("datasets")
    rows = [{"question": "q", "choices": ["x", "y"], "answer": 1}]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "law.parquet")

    assert len(questions(understand(Source(tmp_path, "set")))) == 1

    assert [logging.getLogger(each).handlers for each in ("datasets", "huggingface_hub")] == [[], []]


def test_without_the_library_the_person_learns_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "datasets", None)
    (tmp_path / "dataset_info.json").write_text("{}")

    with pytest.raises(InputError, match=r"pip install 'mcqueue\[hf\]'"):
        list(understand(Source(tmp_path, "d")).rows())
