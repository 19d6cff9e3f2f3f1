"""Which field of a file says what is right: the key is right, or the file is refused with what to say."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import pytest

from benchmarks.layout_files import lines
from tests.unit.producer.readers.keyed import keys, refusal, rows, understood


def test_a_key_under_an_unknown_name_is_not_overlooked(tmp_path: Path) -> None:
    """The file was read as one without a key: a whole run without an accuracy."""
    table = "stem,opt_1,opt_2,level,gold_solution_letter\none?,x,y,1,A\ntwo?,u,v,1,B\nthree?,s,t,2,B\n"
    without = table.replace(",A\n", ",?\n").replace(",B\n", ",?\n")

    told = refusal(tmp_path, table)

    assert "no field has a usual name of the key, but 'gold_solution_letter' names a choice" in told
    assert "--map answer=gold_solution_letter if it is the key, --map answer= if there is none" in told
    assert keys(tmp_path, table, answer="gold_solution_letter") == ["A", "B", "B"]
    assert keys(tmp_path, table, answer="") == keys(tmp_path, without) == ["", "", ""]


@pytest.mark.parametrize("choices", ["choices", "options"])
@pytest.mark.parametrize(
    ("name", "numbers", "remedies"),
    [
        ("gold_idx", (2, 0, 3), {"": "CAD"}),
        ("correct_option_number", (2, 1, 4), {"": "BAD"}),
        ("golden_number", (2, 1, 3), {"base=0": "CBD", "base=1": "BAC"}),
        ("true_answer_no", ("2", "1", "4"), {"": "BAD"}),
        ("gold_indices", ([2, 0], [1], [3]), {"": ["AC", "B", "D"]}),
    ],
)
def test_a_key_of_numbers_under_an_unknown_name_is_not_overlooked(
    tmp_path: Path, choices: str, name: str, numbers: tuple[object, ...], remedies: dict[str, str | list[str]]
) -> None:
    """It was only listed as not used, and the run had no accuracy."""
    content = rows(*({name: each, "level": at} for at, each in enumerate(numbers)), choices=choices)

    told = refusal(tmp_path, content)

    assert f"no field has a usual name of the key, but the numbers in '{name}' may be positions of choices" in told
    options = " or ".join(f"--map answer={name}{base and ','}{base}" for base in remedies)
    assert f"Use {options} if it is the key, --map answer= if there is none" in told
    for base, right in remedies.items():
        more: dict[str, Any] = {"base": base[-1]} if base else {}
        assert keys(tmp_path, content, answer=name, **more) == list(right)
    assert keys(tmp_path, content, answer="") == ["", "", ""]


@pytest.mark.parametrize(
    ("values", "remedy"),
    [
        ((1, 2, 3) * 3, "--map answer=level,base=0 or --map answer=level,base=1"),
        ((0, 2, 3) * 3, "--map answer=level"),
        ((1, 2, 3), ""),
        ((1,) * 9, ""),
        ((0, 1, 1) * 3, ""),
        ((3, 4, 5) * 3, ""),
        ((True, False, True) * 3, ""),
        ((0.5, 1.5, 2) * 3, ""),
        (([0, 2], [3], [1]) * 3, "--map answer=level"),
        (([0, 1], [1], [0]) * 3, ""),
        (([0, 0, 1, 0], [1, 0, 0, 0], [0, 1, 0, 0]) * 3, ""),
        (([2, 7], [4, 9], [0, 3]) * 3, ""),
    ],
    ids=[
        *("either", "from 0", "few rows", "constant", "flags", "too large", "truths", "fractions"),
        *("lists", "lists of flags", "a flag for each choice", "spans"),
    ],
)
def test_other_numbers_that_may_be_the_key_are_pointed_out_where_no_question_has_one(
    tmp_path: Path, values: tuple[object, ...], remedy: str
) -> None:
    content = rows(*({"level": each} for each in values))
    keyed = rows(*({"level": each, "answer": "ABC"[at % 3]} for at, each in enumerate(values)))

    told = understood(tmp_path, content).doubt

    expected = f"warning: no question has a key, but these numbers may be one: {remedy}." if remedy else ""
    assert told == expected
    assert understood(tmp_path, content, answer="").doubt == ""
    assert understood(tmp_path, keyed).doubt == ""


def test_the_unused_fields_are_told_if_no_field_was_found_for_the_key(tmp_path: Path) -> None:
    table = "stem,opt_1,opt_2,number,{}\none?,x,y,n1,0\ntwo?,u,v,n2,1\nthree?,s,t,n3,1\n"

    assert understood(tmp_path, table.format("marked")).fields.describe().endswith(" · not used: number, marked")
    assert "not used" not in understood(tmp_path, table.format("key")).fields.describe()


@pytest.mark.parametrize(
    ("columns", "name", "answers"),
    [
        ("premise,choice1,choice2", "label", ("choice2", "choice1")),
        ("question,option_a,option_b", "answer", ("option_b", "option_a")),
        ("question,option1,option2", "answer_index", ("option2", "option1")),
    ],
)
def test_an_answer_may_be_the_name_of_a_choices_column(
    tmp_path: Path, columns: str, name: str, answers: tuple[str, str]
) -> None:
    """As in COPA, whose classes are called so: each row was refused, as naming no choice."""
    first, second = answers

    assert keys(tmp_path, f"{columns},{name}\nq,x,y,{first}\nr,x,y,{second}\n") == ["B", "A"]


def test_the_name_of_a_column_that_a_row_leaves_empty_is_no_answer(tmp_path: Path) -> None:
    _, empty = keys(tmp_path, "question,option1,option2,option3,answer\nq,x,y,z,option1\nr,x,y,,option3\n")

    assert "'option3' names no choice" in empty


@pytest.mark.parametrize(
    ("name", "numbers", "key"),
    [
        ("correct", (1, 0, 1), {"gold": "C"}),
        ("key", (1, 2, 3), {"gold": "C"}),
        ("label", (0, 1, 0), {"correct_answer": "In"}),
        ("answer_id", (17, 18, 19), {"answer": "C"}),
        ("correct", (True, False, True), {"gold": "C"}),
    ],
)
def test_flags_and_row_numbers_are_no_key_where_another_field_is(
    tmp_path: Path, name: str, numbers: tuple[int, ...], key: dict[str, str]
) -> None:
    file = understood(tmp_path, rows(*({name: number, **key} for number in numbers)))

    assert [row.question.right for row in file.rows() if row.question] == [("C",)] * 3
    assert file.fields.answer == (*key,)


def test_a_list_of_all_labels_is_no_key(tmp_path: Path) -> None:
    assert keys(tmp_path, rows({"labels": ["A", "B", "C", "D"], "gold": "C"})) == ["C"]


def test_a_number_in_a_column_of_flags_is_kept_beside_the_key(tmp_path: Path) -> None:
    row, _ = understood(tmp_path, "question,A,B,correct,gold\nq,x,y,1,A\nr,x,y,0,B\n").rows()

    assert row.question
    assert row.question.metadata == {"correct": "1"}


def test_answers_beside_choices_are_the_right_ones(tmp_path: Path) -> None:
    columns = "question,option_a,option_b,option_c,answers\nq,x,y,z,\"['A', 'C']\"\n"

    assert keys(tmp_path, rows({"answers": ["Fe"]})) == ["B"]
    assert keys(tmp_path, columns) == ["AC"]


def test_minus_one_may_be_a_choice(tmp_path: Path) -> None:
    marks = [{"text": each, "correct": each == "-1"} for each in ("1", "-1")]
    file = understood(tmp_path, lines({"question": "q", "options": ["2", "-1"], "correct_answer": "-1"}))

    assert [row.question.right for row in file.rows() if row.question] == [("B",)]
    assert file.fields.answer == ("correct_answer",)
    assert keys(tmp_path, "question,A,B,answer\nq,x,-1,-1\nr,5,-5,-5\n") == ["B", "B"]
    assert keys(tmp_path, lines({"question": "q", "correct_answer": "-1", "distractors": ["1"]})) != [""]
    assert keys(tmp_path, lines({"question": "q", "options": marks, "answer": -1})) == ["B"]


def test_a_letter_among_choices_is_read_though_wrong_ones_stand_apart(tmp_path: Path) -> None:
    row = {"answer": "B", "distractors": ["Ir", "In", "F"]}

    assert keys(tmp_path, rows(row)) == ["B"]


@pytest.mark.parametrize(
    ("choices", "cells", "right"),
    [
        (["B and C", "A", "none"], ["['B and C']", '["A"]', "['none']"], ["A", "B", "C"]),
        (["a, b", "c;d", "x"], ["['a, b']", "['c;d']", "['a, b', 'x']"], ["A", "B", "AC"]),
        (["x", "y", "z"], ["['A', 'C']", "['b']", "[]"], ["AC", "B", ""]),
        (["x", "y", "z"], ["[0, 2]", "[1]", "[2]"], ["AC", "B", "C"]),
        (["x", "y", "z"], ["[0, 1, 0]", "[0, 0, 1]", "[1, 0, 0]"], ["B", "C", "A"]),
        (["[0]", "[1]", "[0, 1]"], ["[0, 1]", "[0, 1]", "[0, 1]"], ["C", "C", "C"]),
    ],
)
@pytest.mark.parametrize("names", ["A,B,C", "option0,option1,option2"])
def test_a_list_in_a_cell_names_what_its_items_name(
    tmp_path: Path, names: str, choices: list[str], cells: list[str], right: list[str]
) -> None:
    table = io.StringIO()
    csv.writer(table).writerows(
        [["question", *names.split(","), "answer"], *([f"q{at}", *choices, cell] for at, cell in enumerate(cells))]
    )

    assert keys(tmp_path, table.getvalue()) == right
