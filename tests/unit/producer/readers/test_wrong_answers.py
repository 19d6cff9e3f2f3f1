"""Wrong answers apart from the right one: in a list, in a cell, or in columns of their own."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.layout_files import lines
from tests.unit.producer.readers.reading import questions, read


@pytest.mark.parametrize("wrong", [["a; b", "c"], "['a; b' 'c']"])
def test_truthfulqas_wrong_answers_may_be_a_list(tmp_path: Path, wrong: object) -> None:
    row = {"question": "q", "best_answer": "r", "correct_answers": ["r"], "incorrect_answers": wrong}

    (question,) = questions(read(tmp_path, lines(row)))

    assert sorted(question.choices) == ["a; b", "c", "r"]
    assert question.choice_text(question.right[0]) == "r"


@pytest.mark.parametrize("name", ["incorrect_answers", "distractors", "Wrong Answers"])
@pytest.mark.parametrize(
    "cell", ["['Rome', 'Oslo', 'Bern']", ' [""Rome"", ""Oslo"", ""Bern"", """"]', "['Rome' 'Oslo'\n 'Bern']"]
)
def test_a_table_may_have_all_wrong_answers_as_a_list_in_one_cell(tmp_path: Path, name: str, cell: str) -> None:
    """As pandas writes them. The whole list became one wrong choice, and chance one half."""
    (question,) = questions(read(tmp_path, f'question,correct_answer,{name}\nCapital of France?,Paris,"{cell}"\n'))

    assert sorted(question.choices) == ["Bern", "Oslo", "Paris", "Rome"]
    assert question.choice_text(question.right[0]) == "Paris"


def test_a_list_of_wrong_numbers_in_a_cell_becomes_texts(tmp_path: Path) -> None:
    (question,) = questions(read(tmp_path, 'question,correct_answer,distractors\n1+1?,2,"[3, 4]"\n'))

    assert sorted(question.choices) == ["2", "3", "4"]


def test_lab_benchs_ideal_is_the_right_answer_beside_its_distractors(tmp_path: Path) -> None:
    """It was refused: no field had a name of choices."""
    row = {"question": "Symbol of iron?", "ideal": "Fe", "distractors": ["Ir", "In"], "sources": ["https://doi.org/x"]}

    (question,) = questions(read(tmp_path, lines(row)))

    assert sorted(question.choices) == ["Fe", "In", "Ir"]
    assert question.choice_text(question.right[0]) == "Fe"


@pytest.mark.parametrize("right", ["correct_answer", "best_answer"])
def test_marks_are_removed_where_all_answers_have_one_as_the_order_becomes_another(tmp_path: Path, right: str) -> None:
    table = f"question,{right},incorrect_answers\nCapital of France?,C. Paris,\"['A. Rome', 'B. Oslo']\"\n"

    (question,) = questions(read(tmp_path, table))

    assert sorted(question.choices) == ["Oslo", "Paris", "Rome"]
    assert question.choice_text(question.right[0]) == "Paris"


def test_marks_of_the_wrong_answers_alone_stay_as_the_right_one_would_be_the_only_one_without(tmp_path: Path) -> None:
    table = "question,correct_answer,incorrect_answers\nCapital of France?,Paris,\"['A. Rome', 'B. Oslo']\"\n"

    (question,) = questions(read(tmp_path, table))

    assert sorted(question.choices) == ["A. Rome", "B. Oslo", "Paris"]


@pytest.mark.parametrize("cell", ["Rome; Oslo; Bern", "Rome|Oslo", "Rome"])
def test_a_text_in_place_of_the_list_of_wrong_answers_is_refused_instead_of_taken_for_one(
    tmp_path: Path, cell: str
) -> None:
    for content in (
        f"question,correct_answer,incorrect_answers\nCapital of France?,Paris,{cell}\n",
        lines({"question": "Capital of France?", "correct_answer": "Paris", "incorrect_answers": cell}),
    ):
        (row,) = read(tmp_path, content).rows()

        assert f"field 'incorrect_answers': found {cell!r}, expected a list of texts." in str(row.trouble)
        assert 'For example ["red", "blue"]. Or give each wrong choice a field of its own' in str(row.trouble)


def test_a_broken_list_of_wrong_answers_is_refused_by_its_columns_name(tmp_path: Path) -> None:
    table = 'question,correct_answer,distractors\nCapital of France?,Paris,"[Rome, Oslo]"\n'

    (row,) = read(tmp_path, table).rows()

    assert "field 'distractors': malformed JSON in the cell" in str(row.trouble)


def test_a_wrong_answer_in_a_column_of_its_own_may_begin_with_a_bracket(tmp_path: Path) -> None:
    table = 'question,correct_answer,distractor1,distractor2\nWhich?,"[0, 2]","[0, 1]","[1, 2)"\n'

    (question,) = questions(read(tmp_path, table))

    assert sorted(question.choices) == ["[0, 1]", "[0, 2]", "[1, 2)"]
