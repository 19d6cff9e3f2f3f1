"""Several lists of questions in one file, and what stands beside them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.layout_files import CASES
from contract.errors import QuestionFileError
from tests.unit.producer.readers.reading import questions, read


def test_a_subset_can_be_chosen_and_ids_stay_the_same(tmp_path: Path) -> None:
    whole = questions(read(tmp_path, CASES["MIRAGE"].content))
    (chosen,) = questions(read(tmp_path, CASES["MIRAGE"].content, subset="sums"))

    assert [(each.id, each.subject) for each in whole] == [("colours-0", "colours"), ("sums-0", "sums")]
    assert chosen == whole[1]
    with pytest.raises(QuestionFileError, match=r"no subset 'sum' among colours, sums.*Did you mean 'sums'"):
        list(read(tmp_path, CASES["MIRAGE"].content, subset="sum").rows())


def numbered(start: int, count: int) -> list[dict[str, Any]]:
    return [{"question": f"q{n}", "choices": ["x", "y"], "answer": "B"} for n in range(start, start + count)]


@pytest.mark.parametrize(("usual", "other"), [("examples", "test"), ("questions", "bonus_questions")])
def test_a_list_of_questions_beside_one_with_a_usual_name_is_read_too(tmp_path: Path, usual: str, other: str) -> None:
    """Only the list with the usual name was read, and `--subset` knew no other."""
    content = json.dumps({"name": "n", usual: numbered(0, 2), other: numbered(2, 3)}, indent=1)

    whole = questions(read(tmp_path, content))

    assert [each.subject for each in whole] == [usual] * 2 + [other] * 3
    assert questions(read(tmp_path, content, subset=other)) == whole[2:]
    assert questions(read(tmp_path, content, subset=usual)) == whole[:2]


def test_the_split_beside_a_list_of_examples_can_be_chosen(tmp_path: Path) -> None:
    content = json.dumps({"examples": numbered(0, 2), "test": numbered(2, 3)}, indent=1)

    found = questions(read(tmp_path, content, split="test"))

    assert [(each.question, each.subject) for each in found] == [("q2", None), ("q3", None), ("q4", None)]


def test_a_list_of_something_else_beside_the_questions_is_passed_over_unless_it_is_chosen(tmp_path: Path) -> None:
    content = json.dumps({"questions": numbered(0, 2), "references": [{"title": "t"}], "tags": ["a"]}, indent=1)

    assert [each.subject for each in questions(read(tmp_path, content))] == [None, None]
    (row,) = read(tmp_path, content, subset="references").rows()
    assert "question" in str(row.trouble)
    with pytest.raises(QuestionFileError, match=r"no subset 'refs' among questions, references"):
        list(read(tmp_path, content, subset="refs").rows())


def test_a_single_question_beside_a_list_of_them_is_not_passed_over(tmp_path: Path) -> None:
    content = json.dumps({"example": numbered(0, 1)[0], "questions": numbered(1, 2), "by": {"name": "n"}}, indent=1)

    with pytest.raises(QuestionFileError) as refused:
        questions(read(tmp_path, content))

    assert str(refused.value).startswith("file:2: 'example' is a question, but in none of the lists (questions)")
    assert "--subset questions reads only what is there" in str(refused.value)
    assert [each.question for each in questions(read(tmp_path, content, subset="questions"))] == ["q1", "q2"]


def test_a_group_of_questions_by_id_beside_the_usual_list_is_read_too(tmp_path: Path) -> None:
    content = json.dumps({"questions": numbered(0, 2), "more": {"a": numbered(2, 1)[0]}}, indent=1)

    assert [each.question for each in questions(read(tmp_path, content))] == ["q0", "q1", "q2"]


def test_a_list_beside_questions_by_id_is_an_entry_that_is_accounted_for(tmp_path: Path) -> None:
    """It was the only thing that was read."""
    first, second = numbered(0, 2)
    content = json.dumps({"a": first, "b": second, "references": [{"title": "t"}]}, indent=1)

    rows = list(read(tmp_path, content).rows())

    assert [bool(row.question) for row in rows] == [True, True, False]


def test_entries_of_a_keyed_file_that_are_no_questions_are_accounted_for(tmp_path: Path) -> None:
    content = json.dumps({"a": {"question": "q", "options": ["x", "y"], "answer": "x"}, "b": {"note": 1}}, indent=1)
    more = json.dumps({**json.loads(content), "c": {"question": "r", "options": ["x", "y"], "answer": "y"}})

    rows = list(read(tmp_path, more).rows())

    assert [bool(row.question) for row in rows] == [True, False, True]
    assert rows[0].question
    assert rows[0].question.id == "a"
