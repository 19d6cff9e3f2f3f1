"""What choices begin with: marks that label them, or part of their text; and choices that cannot be told apart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks.layout_files import lines
from tests.unit.producer.reading import questions, read


def told_of(folder: Path, row: dict[str, Any]) -> list[str]:
    """What is said against a row."""
    return [str(each.trouble) for each in read(folder, lines(row)).rows()]


@pytest.mark.parametrize("field", ["choices", "options"])
def test_marked_choices_in_which_a_letter_is_missing_are_refused(tmp_path: Path, field: str) -> None:
    """Key C was the third one, which is marked D."""
    (told,) = told_of(tmp_path, {"question": "q", field: ["(A) red", "(C) blue", "(D) green"], "answer": "C"})
    assert "the choices are marked A, C, D: a letter could mean the mark or the position" in told


def test_marks_count_also_where_two_choices_are_the_same(tmp_path: Path) -> None:
    """Key B was the second one, which is marked A."""
    row = {"question": "q", "options": ["(C) red", "(A) red", "(B) blue"], "label": "B"}
    (question,) = questions(read(tmp_path, lines(row)))
    assert question.choice_text(question.right[0]) == "blue"


@pytest.mark.parametrize(
    "choices",
    [
        ["(a) and (b)", "(b) and (d)", "(c) and (d)"],
        ["(I) only", "(V) only"],
        ["J. B. Rhine", "A. N. Whitehead", "U. S. Grant"],
    ],
)
def test_what_begins_choices_and_is_no_mark_stays(tmp_path: Path, choices: list[str]) -> None:
    (question,) = questions(read(tmp_path, lines({"question": "q", "options": choices, "answer": "B"})))
    assert (list(question.choices), question.right) == (choices, ("B",))


def test_a_key_that_is_the_text_of_two_choices_is_called_so(tmp_path: Path) -> None:
    (told,) = told_of(tmp_path, {"question": "q", "options": ["Iron", "Iron", "lead"], "answer": "Iron"})
    assert "'Iron' is the text of choices A and B. Name the right one by its label, or remove the other." in told


def test_choices_whose_texts_are_in_no_known_field_are_told_with_what_is_there(tmp_path: Path) -> None:
    row = {"question": "q", "options": [{"optionText": "x"}, {"optionText": "y"}], "answer": "A"}
    (told,) = told_of(tmp_path, row)
    assert "found {'optionText': 'x'}, in which no field is called text, content," in told
