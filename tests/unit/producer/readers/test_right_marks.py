"""Right choices that are marked as such: each by a flag, or all by a list of a 0 or 1 for each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks.layout_files import lines
from tests.unit.producer.readers.keyed import METALS, keys, rows, understood


@pytest.mark.parametrize("flag", ["isCorrect", "is_key", "gold"])
def test_choices_that_are_marked_as_right_are_the_key(tmp_path: Path, flag: str) -> None:
    marked = [{"text": each, flag: each == "Fe"} for each in METALS]

    assert keys(tmp_path, lines({"question": "q", "options": marked})) == ["B"]
    (told,) = keys(tmp_path, lines({"question": "q", "options": marked, "answer": "A"}))
    assert "'answer' says 'A', but B is marked as right" in told


@pytest.mark.parametrize(
    ("flags", "right"),
    [
        ([{}, {"correct": True}, {}, {}], "B"),
        ([{}, {"isRight": 1}, {"isRight": None}, {"isRight": 0}], "B"),
        ([{"correct": True}, {}, {"correct": True}, {}], "AC"),
        ([{"correct": False}, {}, {}, {}], ""),
        ([{"correct": "no"}, {"correct": True}, {}, {}], ""),
    ],
)
def test_a_choice_without_a_mark_is_wrong_where_another_is_marked_as_right(
    tmp_path: Path, flags: list[dict[str, Any]], right: str
) -> None:
    marked = [{"text": each, **flag} for each, flag in zip(METALS, flags, strict=True)]

    assert keys(tmp_path, lines({"question": "q", "options": marked})) == [right]


@pytest.mark.parametrize("field", ["answer", "labels", "correct"])
@pytest.mark.parametrize("choices", ["options", "choices"])
def test_a_list_of_a_0_or_1_for_each_choice_marks_the_right_ones(tmp_path: Path, field: str, choices: str) -> None:
    marked = rows(*({field: flags} for flags in ([0, 1, 0, 0], [0, 0, 0, 1], [1, 0, 1, 0])), choices=choices)
    of_two = lines(*({"question": f"q{at}", choices: ["x", "y"], field: [at, 1 - at]} for at in (0, 1)))

    assert keys(tmp_path, marked) == ["B", "D", "AC"]
    assert keys(tmp_path, of_two) == ["B", "A"]
    assert understood(tmp_path, marked).way.value == "by a 0 or 1 for each choice"


def test_a_list_of_zeros_among_such_lists_names_no_choice(tmp_path: Path) -> None:
    first, second = keys(tmp_path, rows({"labels": [0, 1, 0, 0]}, {"labels": [0, 0, 0, 0]}))

    assert first == "B"
    assert "[0, 0, 0, 0] names no choice. Expected a list with a 0 or 1 for each choice" in second


def test_indices_of_both_choices_among_other_lists_of_indices_stay_indices(tmp_path: Path) -> None:
    content = lines(
        {"question": "q1", "options": ["x", "y", "z"], "answer": [0, 2]},
        {"question": "q2", "options": ["x", "y"], "answer": [0, 1]},
    )

    assert keys(tmp_path, content) == ["AC", "AB"]


def test_a_0_or_1_for_each_choice_is_read_beside_a_text_that_says_the_same(tmp_path: Path) -> None:
    said = [{"label": [0, 1, 0, 0], "correct_answer": "Fe"}, {"label": [1, 0, 0, 0], "correct_answer": "Ir"}]

    assert keys(tmp_path, rows(*said)) == ["B", "A"]
