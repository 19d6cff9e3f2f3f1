"""Parquet files: read in batches, refused row by row, and the values that a cell may hold."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from contract.errors import QuestionFileError
from producer.readers import Source, understand
from producer.readers.answer_fields import Key
from producer.readers.answers import Way
from producer.readers.fields import to_row
from producer.readers.layouts import OWN
from producer.readers.parquet import read_parquet
from producer.readers.record import Record
from tests.unit.producer.readers.reading import questions


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
