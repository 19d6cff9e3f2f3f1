"""CSV tables: separators, quotes, headers, and the lines that rows begin in."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from producer.readers import Source, understand
from tests.unit.producer.readers.reading import read


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
