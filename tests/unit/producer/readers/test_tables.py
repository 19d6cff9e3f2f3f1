"""CSV tables: separators, quotes, headers, what a cell may hold, and the lines that rows begin in."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

from producer.readers import Source, understand
from tests.unit.producer.readers.keyed import keys, refusal
from tests.unit.producer.readers.reading import questions_of, read, rows_of, write


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


def test_an_object_of_metadata_in_a_cell_may_be_as_python_prints_it(tmp_path: Path) -> None:
    """As pandas writes it: all rows of QuAIL as CSV were bad."""
    rows = """q,x,y,A,"{'by': 'me', 'at': None}"\nr,x,y,A,{by: me}\n"""

    good, bad = rows_of(write(tmp_path, "q.csv", f"question,A,B,answer,metadata\n{rows}"))

    assert good.question
    assert good.question.metadata == {"by": "me"}
    assert re.search(r"'metadata': malformed JSON in the cell.*For example \{\"level\": 3\}", str(bad.trouble))


def test_other_csv_columns_are_metadata_and_empty_cells_are_nothing(tmp_path: Path) -> None:
    text = 'id,question,A,B,answer,subject,level,metadata,\nk,"two\nlines",x,y,,,3,"{""by"": ""me""}",\n'

    (question,) = questions_of(write(tmp_path, "q.csv", text))

    assert question.question == "two\nlines"
    assert (question.answer, question.subject) == (None, None)
    assert question.metadata == {"level": "3", "by": "me"}


def test_a_csv_row_after_a_quoted_line_break_knows_its_line(tmp_path: Path) -> None:
    text = 'question,A,B,answer\n"two\nlines",x,y,A\nlast,x,y\n'

    good, bad = rows_of(write(tmp_path, "q.csv", text))

    assert (good.line, bad.line) == (2, 4)
    assert "found 3 cells, expected 4. Complete the row: an empty cell is followed by a comma, too." in str(bad.trouble)


def test_a_csv_row_with_a_stray_quote_is_refused_alone_and_shows_it(tmp_path: Path) -> None:
    text = 'question,A,B,answer\n"He said ""hi"", then "bye" to all",x,y,A\n"two\nlines",x,y,B\nlast,x,y,A\n'

    bad, two, last = rows_of(write(tmp_path, "q.csv", text))

    assert "q.csv:2: malformed CSV: the quote at column 23 (…" in str(bad.trouble)
    assert (two.line, last.line) == (3, 5)
    assert [row.question.answer for row in (two, last) if row.question] == ["B", "A"]


def test_a_stray_quote_is_looked_for_in_the_line_that_has_it(tmp_path: Path) -> None:
    text = 'question,A,B,answer\r\n"He said\r\n"hi" to all",x,y,A\r\nlast,x,y,A\r\n'

    bad, _ = rows_of(write(tmp_path, "q.csv", text))

    assert 'q.csv:2: malformed CSV: the quote at column 1 of line 3 (…"hi" to all",x,…)' in str(bad.trouble)


@pytest.mark.parametrize("header", ["question, A, B, C, answer\n", ""])
def test_quotes_behind_a_space_enclose_a_cell_like_any_other(tmp_path: Path, header: str) -> None:
    """The quotes became part of the choices, and a comma between them began another cell."""
    rows = '"Is it, or not?", "red, or ""so""", "blue", green, B\n"Is it?", "re\nd",  "blue", "green", C\n'

    one, two = questions_of(write(tmp_path, "q.csv", header + rows))

    assert (one.question, one.choices, one.answer) == ("Is it, or not?", ('red, or "so"', "blue", "green"), "B")
    assert (two.question, two.choices, two.answer) == ("Is it?", ("re\nd", "blue", "green"), "C")


@pytest.mark.parametrize("delimiter", [",", ";", "|"])
def test_a_space_before_a_cell_is_kept_where_no_quote_follows_it(tmp_path: Path, delimiter: str) -> None:
    rows = ["question,A,B,answer", 'q, x," ""y""",B', 'r, "x" and y,"a, "" b",A']

    one, two = questions_of(write(tmp_path, "q.csv", "\n".join(rows).replace(",", delimiter)))

    assert one.choices == (" x", ' "y"')
    assert two.choices == (' "x" and y', f'a{delimiter} " b')


def test_tabs_are_followed_by_what_belongs_to_the_cell(tmp_path: Path) -> None:
    (question,) = questions_of(write(tmp_path, "q.tsv", 'question\tA\tB\tanswer\nq\t "x"\ty\tB\n'))

    assert question.choices == (' "x"', "y")


def test_one_row_with_a_stray_quote_does_not_change_how_the_others_are_divided(tmp_path: Path) -> None:
    rows = ['"He said "no"", "red", "blue", A', 'q, "red, "so"", "blue", A', 'r, "red", "blue", B', 's, "x", "y", B']

    *bad, third, last = rows_of(write(tmp_path, "q.csv", "\n".join(["question, A, B, answer", *rows])))

    assert [row.trouble.kind for row in bad if row.trouble] == [
        "malformed CSV: a quote inside a quoted cell is not doubled"
    ] * 2
    assert "the quote at column 10 (…" in str(bad[1].trouble)
    assert [row.question.choices for row in (third, last) if row.question] == [("red", "blue"), ("x", "y")]


def test_a_cell_whose_quote_follows_a_space_is_told_so_where_other_cells_begin_with_such_quotes(tmp_path: Path) -> None:
    rows = ['q, "x" and y,z,A', 'q, "x" or y,z,B', 'r, "a, b",z,B']

    *_, bad = rows_of(write(tmp_path, "q.csv", "\n".join(["question,A,B,answer", *rows])))

    assert "found 5 cells, expected 4. Remove the space in front of a quote that begins a cell" in str(bad.trouble)


def test_an_empty_csv_cell_between_choices_is_refused_by_its_letter_without_advice_for_json(tmp_path: Path) -> None:
    (row,) = rows_of(write(tmp_path, "q.csv", "question,A,B,C,answer\nq,x,,z,C\n"))

    assert "field 'choices': choice B is empty. Fill it in" in str(row.trouble)
    assert "quotes" not in str(row.trouble)


@pytest.mark.parametrize("cell", ["[x]", r'["$\alpha$", "$\beta$"]', r"['$\frac12$', '$\dots$']"])
def test_a_list_in_a_cell_that_neither_json_nor_python_wrote_is_refused(tmp_path: Path, cell: str) -> None:
    r"""Of those with backslashes, the choices were asked with control characters in place of \a, \b and \f."""
    quoted = cell.replace('"', '""')

    (row,) = rows_of(write(tmp_path, "q.csv", f'question,choices,answer\nq,"{quoted}",A\n'))

    assert "field 'choices': malformed JSON in the cell" in str(row.trouble)


@pytest.mark.parametrize(
    ("content", "hint"),
    [
        ("0,Which is iron?,Ir,Fe,B\n1,Which is gold?,Ag,Au,B\n", "id=1,question=2,choices=3+4,answer=5"),
        ("metals,Which is iron?,Ir,Fe,B\nmetals,Which is gold?,Ag,Au,B\n", "subject=1,question=2,choices=3+4,answer=5"),
        ("q-a,Which is iron?,Ir,Fe,B\nq-b,Which is gold?,Ag,Au,B\n", "id=1,question=2,choices=3+4,answer=5"),
    ],
)
def test_a_table_without_header_that_begins_with_an_id_or_a_subject_is_refused(
    tmp_path: Path, content: str, hint: str
) -> None:
    assert f"--map {hint}" in refusal(tmp_path, content)
    assert keys(tmp_path, content, None, **dict(pair.split("=") for pair in hint.split(","))) == ["B", "B"]


def test_a_table_without_header_may_ask_with_one_word(tmp_path: Path) -> None:
    assert keys(tmp_path, "Iron,a metal,a noble gas,A\nNeon,a metal,a noble gas,B\n") == ["A", "B"]
