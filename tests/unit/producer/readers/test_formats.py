"""What files are packed and written in: compression, encodings, Parquet, datasets."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import logging
import lzma
import zipfile
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from benchmarks.layout_files import lines
from contract.errors import InputError, QuestionFileError, RunConfigError
from contract.ledger import MemoryLedger
from contract.question import Question
from contract.verdict import Outcome, Verdict
from producer.export.results import export
from producer.readers import HowToRead, Source, understand
from producer.readers.answer_fields import Key
from producer.readers.answers import Way
from producer.readers.fields import to_row
from producer.readers.layouts import OWN
from producer.readers.parquet import read_parquet
from producer.readers.record import Record
from producer.readers.text import LONGEST_LINE_BYTES, encoding_of
from producer.runs.parts import FewShotConfig
from tests.support import make_questions, needed_package, open_run
from tests.unit.producer.readers.reading import questions, read

ROWS = [{"question": f"Was ist {n}? ä, 三", "choices": ["ja", "nein"], "answer": n % 2} for n in range(3)]
JSONL = lines(*ROWS).encode()
CSV = "question,A,B,answer\n" + "".join(f'"Was ist {n}? ä, 三",ja,nein,{"AB"[n % 2]}\n' for n in range(3))


def zstd(content: bytes) -> bytes:
    return bytes(pyarrow.Codec("zstd").compress(content, asbytes=True))


def zipped(**files: bytes) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, content in files.items():
            archive.writestr(f"folder/{name}", content)
    return packed.getvalue()


def excel() -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("[Content_Types].xml", "<Types/>")
        archive.writestr("xl/workbook.xml", "<workbook/>")
    return packed.getvalue()


@pytest.mark.parametrize(
    ("content", "title"),
    [
        (gzip.compress(JSONL), "mcqueue's own JSONL (gzip)"),
        (zstd(JSONL[:50]) + zstd(JSONL[50:]), "mcqueue's own JSONL (zstandard)"),
        (b"\x50\x2a\x4d\x18\4\0\0\0size" + zstd(JSONL), "mcqueue's own JSONL (zstandard)"),
        (zipped(q=JSONL), "mcqueue's own JSONL (zip)"),
        (gzip.compress(CSV.encode("utf-16")), "MMLU CSV (UTF-16-LE, gzip)"),
        (zipped(q=CSV.encode("utf-8-sig")), "MMLU CSV (zip)"),
        (zipped(q=gzip.compress(JSONL)), "mcqueue's own JSONL (zip)"),
        (zipped(q=zstd(JSONL[:50]) + zstd(JSONL[50:])), "mcqueue's own JSONL (zip)"),
    ],
)
def test_packed_files_are_unpacked_as_they_are_read(tmp_path: Path, content: bytes, title: str) -> None:
    file = read(tmp_path, content)

    assert file.title == title
    assert [each.question for each in questions(file)] == [row["question"] for row in ROWS]
    assert [each.answer for each in questions(file)] == ["A", "B", "A"], "it can be read twice"


def test_parquet_in_a_zip_is_named_instead_of_left_out(tmp_path: Path) -> None:
    with pytest.raises(
        QuestionFileError, match=r"Parquet, which is not read from a zip: folder/b\.parquet\. Unpack it"
    ):
        read(tmp_path, zipped(**{"a.jsonl": JSONL, "b.parquet": b"PAR1"}))


def test_an_empty_zip_is_refused(tmp_path: Path) -> None:
    with pytest.raises(QuestionFileError, match="the zip is empty"):
        read(tmp_path, zipped())


@pytest.mark.parametrize(
    "content",
    [
        gzip.compress(JSONL)[:-12],
        gzip.compress(JSONL)[:20] + b"\x00" * 30,
        zstd(JSONL)[:12],
        zstd(JSONL)[:10] + b"\xff" * 40,
        zipped(q=JSONL)[:-10],
        zipped(q=gzip.compress(JSONL)[:-12]),
        zipped(q=zstd(JSONL)[:12]),
        b"PK\x03\x04 and nothing",
        b"PAR1 and nothing",
    ],
    # Not the bytes: in some is the second in which they were made, and each process makes its own.
    ids=[
        "gzip cut",
        "gzip overwritten",
        "zstd cut",
        "zstd overwritten",
        "zip cut",
        "gzip cut in a zip",
        "zstd cut in a zip",
        "no zip",
        "no parquet",
    ],
)
def test_damaged_packages_are_refused(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(QuestionFileError, match="damaged or truncated"):
        list(read(tmp_path, content).rows())


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-be"])
@pytest.mark.parametrize("ends", ["\n", "\r\n"])
def test_unicode_is_recognised_in_every_form(tmp_path: Path, encoding: str, ends: str) -> None:
    mark = "\ufeff" if encoding == "utf-32-be" else ""
    text = mark + CSV.replace("\n", ends)

    assert [each.question for each in questions(read(tmp_path, text.encode(encoding)))] == [
        row["question"] for row in ROWS
    ]


def test_json_may_be_utf_16_too(tmp_path: Path) -> None:
    assert len(questions(read(tmp_path, json.dumps(ROWS, ensure_ascii=False).encode("utf-16")))) == 3


def test_another_encoding_is_refused_with_the_offset_and_read_when_it_is_named(tmp_path: Path) -> None:
    content = "question,A,B,answer\nWas heißt café?,Kaffee,Haus,A\n".encode("latin-1")

    with pytest.raises(QuestionFileError) as caught:
        list(read(tmp_path, content).rows())
    (question,) = questions(read(tmp_path, content, encoding="cp1252"))

    assert f"file:2: byte 0xdf at offset {content.index(0xDF)} is not UTF-8" in str(caught.value)
    assert "If it should read" in str(caught.value)
    assert "heißt café" in str(caught.value)
    assert "--encoding cp1252" in str(caught.value)
    assert question.question == "Was heißt café?"


def test_a_line_of_another_encoding_spoils_itself_alone(tmp_path: Path) -> None:
    content = JSONL + b'{"question": "caf\xe9?"}\n' + JSONL

    rows = list(read(tmp_path, content).rows())

    assert [bool(row.question) for row in rows] == [True] * 3 + [False] + [True] * 3
    assert f"file:4: byte 0xe9 at offset {content.index(0xE9)} is not UTF-8" in str(rows[3].trouble)


def test_utf_16_that_ends_within_a_letter_is_refused_with_the_offset(tmp_path: Path) -> None:
    content = CSV.encode("utf-16")

    with pytest.raises(QuestionFileError, match=rf"file:5: .*offset {len(content)} is not UTF-16-LE"):
        list(read(tmp_path, content + b"x").rows())


@pytest.mark.parametrize("content", [CSV, JSONL.decode(), json.dumps(ROWS, ensure_ascii=False)])
@pytest.mark.parametrize("saved", ["utf-16-le", "utf-16-be", "utf-32-le"])
def test_a_named_encoding_of_either_byte_order_needs_no_mark(tmp_path: Path, content: str, saved: str) -> None:
    """It ended in a traceback: without a mark, Python decodes such a text as a whole, but not in parts."""
    found = questions(read(tmp_path, content.encode(saved), encoding=saved[:6]))

    assert [each.question for each in found] == [row["question"] for row in ROWS]


@pytest.mark.parametrize("named", ["utf-16", "utf-32", "utf-16-be"])
def test_utf_8_is_not_read_as_the_chinese_that_its_bytes_are_in_utf_16(tmp_path: Path, named: str) -> None:
    with pytest.raises(QuestionFileError, match=rf"file:1: the file is not {named.upper()}.* Leave --encoding out"):
        read(tmp_path, JSONL, encoding=named)


def test_few_bytes_are_not_guessed_about() -> None:
    assert encoding_of(b"\x00\x01") == "utf-8"
    assert encoding_of("a,b\n".encode("utf-16-le") * 10) == "utf-16-le"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_a_line_without_end_is_refused_instead_of_held_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, encoding: str
) -> None:
    monkeypatch.setattr("producer.readers.text.LONGEST_LINE_BYTES", 1024)

    with pytest.raises(QuestionFileError, match="the line is longer than"):
        list(read(tmp_path, ("[header" + "x" * 2000).encode(encoding), "q.csv").rows())
    assert LONGEST_LINE_BYTES > 2**20


@pytest.mark.parametrize("content", [json.dumps(ROWS), json.dumps({"questions": ROWS})])
def test_json_may_be_one_line_of_any_length(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str) -> None:
    monkeypatch.setattr("producer.readers.text.LONGEST_LINE_BYTES", 100)

    assert len(questions(read(tmp_path, content, "q.json"))) == len(ROWS)


def test_a_whole_number_in_a_column_of_floats_is_shown_as_the_other_choices_are_and_a_missing_one_is_none(
    tmp_path: Path,
) -> None:
    choices = {"A": [4, 5], "B": [3, 6], "C": [5.0, float("nan")]}
    table = pyarrow.table({"question": ["2 + 2?", "3 + 3?"], **choices, "answer": ["A", "B"]})
    pyarrow.parquet.write_table(table, tmp_path / "q")
    found = questions(understand(Source(tmp_path / "q", "q")))
    assert [each.choices for each in found] == [("4", "3", "5"), ("5", "6")]


def test_parquet_is_read_in_batches(tmp_path: Path) -> None:
    path = tmp_path / "q"
    rows = [{"question": f"q{n}", "choices": ["x", "y"], "answer": n % 2, "score": float("nan")} for n in range(3000)]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)

    file = understand(Source(path, "q"))

    assert file.title == "mcqueue's own Parquet"
    found = questions(file)
    assert [each.right for each in found[:3]] == [("A",), ("B",), ("A",)]
    assert (len(found), found[0].metadata) == (3000, {"score": None})


def test_a_group_of_rows_in_parquet_is_not_held_in_memory_as_a_whole(tmp_path: Path) -> None:
    """A file of 520 MB whose rows are all in one group took 630 MB."""
    rows = [{"question": f"q{n}", "choices": ["x", "y"], "answer": 1, "context": f"{n:016}" * 256} for n in range(5000)]
    table = pyarrow.Table.from_pylist(rows)
    pyarrow.parquet.write_table(table, tmp_path / "q", compression="none", use_dictionary=False)
    before = pyarrow.total_allocated_bytes()

    records = read_parquet(tmp_path / "q", "q")
    next(records)

    assert pyarrow.total_allocated_bytes() - before < table.nbytes / 2
    assert sum(1 for _ in records) == len(rows) - 1


def test_two_columns_of_one_name_in_parquet_are_refused(tmp_path: Path) -> None:
    """The last of them was the key, without a word."""
    columns = [["q"], [["x", "y"]], ["A"], ["B"]]
    table = pyarrow.table(columns, names=["question", "choices", "answer", "answer"])
    pyarrow.parquet.write_table(table, tmp_path / "q")

    with pytest.raises(QuestionFileError, match=r"two columns 'answer'\. Give each column a unique name"):
        list(understand(Source(tmp_path / "q", "q")).rows())


def test_a_value_of_parquet_that_cannot_be_read_spoils_its_row_alone(tmp_path: Path) -> None:
    """Any of them ended the command with a traceback."""
    texts = pyarrow.array(["one?", b"caf\xe9?", "three?"], pyarrow.binary())
    texts = pyarrow.StringArray.from_buffers(3, *texts.buffers()[1:])
    dates = pyarrow.array([0, 0, 10**8], pyarrow.int32()).cast(pyarrow.date32())
    columns = [texts, [["x", "y"]] * 3, [1] * 3, dates]
    pyarrow.parquet.write_table(pyarrow.table(columns, names=["question", "choices", "answer", "on"]), tmp_path / "q")

    rows = list(understand(Source(tmp_path / "q", "q")).rows())

    assert [row.question.right for row in rows if row.question] == [("B",)]
    second, third = (str(row.trouble) for row in rows[1:])
    assert second.startswith("q:2: field 'question': cannot be read: UnicodeDecodeError: 'utf-8' codec")
    assert third.startswith("q:3: field 'on': cannot be read: OverflowError")
    assert rows[2].raw == {"question": "three?", "choices": ["x", "y"], "answer": 1}


def test_choices_in_a_map_are_read_as_in_an_object(tmp_path: Path) -> None:
    options = pyarrow.array([[("A", "x"), ("B", "y")]], pyarrow.map_(pyarrow.string(), pyarrow.string()))
    pyarrow.parquet.write_table(
        pyarrow.table([["q"], options, ["B"]], names=["question", "options", "answer"]), tmp_path / "q"
    )

    (question,) = questions(understand(Source(tmp_path / "q", "q")))

    assert (question.choices, question.right) == (("x", "y"), ("B",))


def test_bytes_within_a_cell_are_counted_instead_of_written_out(tmp_path: Path) -> None:
    """An image of 20,000 bytes, as the hub stores it, made a question of 95,679."""
    stored = {"bytes": b"\xff" * 20_000, "path": "x.png"}
    row = {"question": "q", "choices": ["x", "y"], "answer": 1, "image": stored, "more": [stored], "raw": b"\xff" * 3}
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist([row]), tmp_path / "q")

    (question,) = questions(understand(Source(tmp_path / "q", "q")))

    shown = '{"bytes":"<20,000 bytes>","path":"x.png"}'
    assert question.metadata == {"image": shown, "more": f"[{shown}]", "raw": "<3 bytes>"}


def test_times_and_decimals_of_a_cell_are_kept_as_text(tmp_path: Path) -> None:
    found = {"at": datetime(2024, 7, 26, 12), "on": [date(2024, 7, 26)], "for": timedelta(1), "price": Decimal("1.50")}
    row = {"question": "q", "choices": ["x", "y"], "answer": 1, **found}
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist([row]), tmp_path / "q")

    (question,) = questions(understand(Source(tmp_path / "q", "q")))

    shown = ['"2024-07-26 12:00:00"', '["2024-07-26"]', '"1 day, 0:00:00"', '"1.50"']
    assert question.metadata == dict(zip(found, shown, strict=True))


def test_an_object_is_called_by_its_type_as_its_address_differs_each_time() -> None:
    fields = {"question": "q", "choices": ["x", "y"], "answer": 1, "scan": object(), "scans": [object()]}

    row = to_row(Record(1, fields, fields), OWN, Key(Way.ANY), "q")

    assert row.question
    assert row.question.metadata == {"scan": '"<object>"', "scans": '["<object>"]'}


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
    with pytest.raises(QuestionFileError, match=r"Config name is missing.*\['law', 'art'\]\. Check the name"):
        list(understand(Source(tmp_path, "set")).rows())


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


def test_packed_parquet_is_named_as_such(tmp_path: Path) -> None:
    written = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist([{"question": "q"}]), written)

    with pytest.raises(QuestionFileError, match=r"is Parquet compressed as gzip.*Decompress it"):
        read(tmp_path, gzip.compress(written.getvalue()))


def test_a_tar_archive_is_named_as_such(tmp_path: Path) -> None:
    import tarfile

    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        entry = tarfile.TarInfo("q.jsonl")
        entry.size = len(JSONL)
        archive.addfile(entry, io.BytesIO(JSONL))

    with pytest.raises(QuestionFileError, match="is a tar archive"):
        read(tmp_path, packed.getvalue())


@pytest.mark.parametrize(
    ("content", "wanted"),
    [
        (bytes.fromhex("d0cf11e0a1b11ae1") + bytes(20), "old Excel file. Save it as CSV"),
        (excel(), "an Excel file. Save it as CSV"),
        (bz2.compress(JSONL), "compressed as bzip2. Unpack it"),
        (lzma.compress(JSONL), "compressed as xz. Unpack it"),
        (b"version https://git-lfs.github.com/spec/v1\nsize 12\n", "Git LFS.*git lfs pull"),
        (b"\n<!DOCTYPE html><html>no such page</html>", "is a web page"),
    ],
)
def test_what_is_something_else_is_named_with_the_remedy(tmp_path: Path, content: bytes, wanted: str) -> None:
    (tmp_path / "q.jsonl").write_bytes(content)

    with pytest.raises(QuestionFileError, match=wanted):
        understand(Source(tmp_path / "q.jsonl", "q.jsonl"))


@pytest.mark.parametrize(
    "content",
    [
        "sep=;\r\nquestion;A;B;answer\r\nq;x;y;B\r\n",
        "\ufeffsep=;\r\nquestion;A;B;answer\r\nq;x;y;B\r\n",
        "question;A;B;answer\rq;x;y;B\r",
        "question;A;B;answer\r\nq;x;y;B\r\n;;;\r\n;;;\r\n",
        "sep=,\nq,x,y,B\n",
    ],
)
def test_tables_are_read_as_spreadsheets_write_them(tmp_path: Path, content: str) -> None:
    (tmp_path / "q.csv").write_bytes(content.encode())

    (row,) = understand(Source(tmp_path / "q.csv", "q.csv")).rows()

    assert row.question
    assert (row.question.choices, row.question.right) == (("x", "y"), ("B",))


def test_a_table_without_header_may_begin_with_a_long_cell(tmp_path: Path) -> None:
    csv.field_size_limit(131_072)  # Python's default, which another test may have raised
    long = "x" * 200_000

    file = read(tmp_path, f'"{long}?",red,blue,B\nq2?,a,b,A\n')

    assert file.title == "MMLU CSV without header"
    assert [row.question.answer for row in file.rows() if row.question] == ["B", "A"]


def test_a_row_after_the_line_of_the_separator_knows_its_line(tmp_path: Path) -> None:
    (tmp_path / "q.csv").write_text("sep=,\nquestion,A,B,answer\nq,x,y,C\n")

    (row,) = understand(Source(tmp_path / "q.csv", "q.csv")).rows()

    assert row.trouble
    assert row.trouble.line == 3


WRAPPED = [{"question": f"q{at}", "options": ["x", "y"], "answer": "B"} for at in range(2)]


@pytest.mark.parametrize(
    "content",
    [
        lines(*({"doc_id": at, "doc": each, "target": "y", "acc": 1.0} for at, each in enumerate(WRAPPED))),
        json.dumps({"features": [{"name": "q"}], "rows": [{"row_idx": 0, "row": each} for each in WRAPPED]}),
    ],
)
def test_a_question_inside_a_log_or_the_hubs_rows_is_found(tmp_path: Path, content: str) -> None:
    found = questions(read(tmp_path, content))

    assert [(each.question, each.right) for each in found] == [("q0", ("B",)), ("q1", ("B",))]


@pytest.mark.parametrize("name", ["doc", "row"])
def test_a_log_or_a_page_of_one_question_is_read_like_those_of_several(tmp_path: Path, name: str) -> None:
    """A run of a single question had a log that was refused: its one line was taken for an object of many questions."""
    (found,) = questions(read(tmp_path, lines({"doc_id": 0, name: WRAPPED[0], "acc": 1.0})))

    assert (found.question, found.right) == ("q0", ("B",))


SEVERAL_RIGHT = Question(
    id="007",
    question="Which number is even?",
    choices=("3", "4", "6"),
    answer="B",
    also_right=("C",),
    subject="numbers",
    context="Numbers.",
    gold_passages=("p1",),
    metadata={"level": 3, "note": None},
)


@pytest.mark.parametrize("kind", ["jsonl", "lm-eval", "questions alone"])
def test_an_exported_question_is_read_as_it_was_also_with_several_right_choices(
    ledger: MemoryLedger, tmp_path: Path, kind: str
) -> None:
    asked = [SEVERAL_RIGHT, *make_questions(2)]
    run = open_run(ledger, asked)
    ledger.commit(run.run_id, [Verdict(question_id=each.id, outcome=Outcome.CORRECT, choice="B") for each in asked])
    export(ledger, run.run_id, tmp_path, ("jsonl", "lm-eval"))
    content = next(tmp_path.rglob("samples_*" if kind == "lm-eval" else "results.jsonl")).read_text()
    if kind == "questions alone":
        content = lines(*(json.loads(line)["question"] for line in content.splitlines()))

    assert questions(read(tmp_path, content)) == asked
