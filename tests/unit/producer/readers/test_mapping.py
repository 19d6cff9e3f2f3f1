"""Which fields were taken for what is told, and a user can name others (`--map`)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.layout_files import CASES, lines
from contract.errors import QuestionFileError
from tests.unit.producer.readers.reading import questions, read

#: Case → what is told of its fields.
FIELDS = {
    "own": "question ← question · choices ← choices · answer ← answer · id ← none",
    "ARC": "question ← stem · choices ← choices · answer ← answerKey · id ← id",
    "CommonsenseQA, no key": "question ← stem · choices ← choices · answer ← none · id ← id"
    " · not used: question_concept",
    "CMMLU": "question ← Question · choices ← A, B, C, D · answer ← Answer · id ← none",
    "SciQ": "question ← question · choices ← correct_answer, distractor1, distractor2, distractor3"
    " · answer ← correct_answer · id ← none · context ← support",
    "MedQA": "question ← question · choices ← options · answer ← answer_idx (also there: answer) · id ← none",
    "PubMedQA": "question ← QUESTION · answer ← final_decision · id ← the key of each question · context ← CONTEXTS",
    "BoolQ": "question ← question · answer ← answer · id ← none · context ← passage",
    "TruthfulQA": "question ← question · choices ← mc1_targets · answer ← mc1_targets · id ← none",
    "TruthfulQA CSV": "question ← Question · choices ← Best Answer, Incorrect Answers · answer ← Best Answer"
    " · id ← none · subject ← Category",
    "BIG-bench on the hub": "question ← inputs · choices ← multiple_choice_targets · answer ← multiple_choice_scores"
    " · id ← none",
    "the predecessor's": "question ← question · choices ← question · answer ← answer · id ← none · context ← text",
    "instruction": "question ← instruction · choices ← instruction · answer ← answer · id ← none",
    "chat": "question ← input · choices ← input · answer ← ideal · id ← none",
}


@pytest.mark.parametrize("name", FIELDS)
def test_it_is_told_which_fields_were_taken_for_what(tmp_path: Path, name: str) -> None:
    assert read(tmp_path, CASES[name].content).fields.describe() == FIELDS[name]


def test_a_missing_question_is_told_with_the_fields_by_the_names_that_the_file_has_for_them(tmp_path: Path) -> None:
    """It named `answer_key`, which no field was called, and left out `label`."""
    (row,) = read(tmp_path, "t,one,two,k,label\nq,x,y,2,A\n", mapping={"answer": "k"}).rows()
    assert "field 'question': missing; found 't, one, two, k, label'" in str(row.trouble)


def test_mapped_fields_are_told_by_the_names_that_the_file_has_for_them(tmp_path: Path) -> None:
    mapping = {"question": "t", "choices": "one+two", "answer": "k", "base": "1"}

    file = read(tmp_path, "t,one,two,k,label\nq,x,y,2,A\n", mapping=mapping)

    assert file.fields.describe() == "question ← t · choices ← one, two · answer ← k (also there: label) · id ← none"


def test_the_fields_of_id_subject_and_context_are_told_as_the_file_spells_them(tmp_path: Path) -> None:
    own = {"subject": "s", "context": "c", "question": "q", "choices": ["x", "y"], "answer": "A"}
    usual = {"qid": 7, "Category": "s", "Passage": "p", "Query": "q", "options": ["x", "y"], "label": "A"}
    empty = {**own, "id": None, "subject": None, "context": None}

    told = {
        name: read(tmp_path, lines(row, row | {name: 9})).fields.describe().partition(" · id ← ")[2]
        for name, row in (("id", own | {"id": 8}), ("qid", usual), ("level", empty))
    }

    assert told == {
        "id": "id · subject ← subject · context ← context",
        "qid": "qid · subject ← Category · context ← Passage",
        "level": "none",
    }


def test_a_column_of_numbers_that_is_not_taken_as_id_is_seen_by_id_none_until_it_is_mapped(tmp_path: Path) -> None:
    table = "No.,unit,question,A,B,key,one,two\n1,u,q,x,y,B,a,b\n2,u,r,x,y,A,c,d\n"

    alone = read(tmp_path, table)
    mapped = read(tmp_path, table, mapping={"id": "No.", "subject": "unit", "context": "one+two"})

    assert alone.fields.describe().endswith(" · answer ← key · id ← none")
    assert mapped.fields.describe().endswith(" · answer ← key · id ← No. · subject ← unit · context ← one, two")
    assert [(each.id, each.context) for each in questions(mapped)] == [("1", "a\n\nb"), ("2", "c\n\nd")]


@pytest.mark.parametrize(
    ("content", "mapping", "expected"),
    [
        (
            lines({"stem": "q", "opts": ["x", "y"], "k": "B"}),
            {"question": "stem", "choices": "opts", "answer": "k"},
            "B",
        ),
        (lines({"a": {"b": "q"}, "c": ["x", "y"], "k": 0}), {"question": "a.b", "choices": "c", "answer": "k"}, "A"),
        ("t,one,two,k\nq,x,y,2\n", {"question": "t", "choices": "one+two", "answer": "k", "base": "1"}, "B"),
        ("o\tq\tx\ty\t1\n", {"question": "2", "choices": "3+4", "answer": "5", "base": "0"}, "B"),
        ("q,option1,option2,n\nq,x,y,1\n", {"question": "q", "answer": "n", "base": "0"}, "B"),
        (lines({"question": "q", "choices": ["x", "y"], "label": 0, "guess": "B"}), {"answer": "guess"}, "B"),
        (lines({"question": "q", "choices": ["x", "y"], "answer": 0, "id": 3}), {"id": ""}, "A"),
        (lines({"prose": "q\nA) x\nB) y", "k": "b"}), {"question": "prose", "answer": "k"}, "B"),
    ],
)
def test_fields_can_be_mapped_by_hand(tmp_path: Path, content: str, mapping: dict[str, str], expected: str) -> None:
    (question,) = questions(read(tmp_path, content, mapping=mapping))

    assert (question.question, question.choices, question.right) == ("q", ("x", "y"), (expected,))


def test_fields_that_could_be_a_mapped_part_themselves_are_kept_with_the_results(tmp_path: Path) -> None:
    """An old model's answer, a solution and a second subject were dropped: the user had named the other field."""
    row = {"question": "q", "choices": ["x", "y"], "answer": "A", "solution": "since", "topic": "t", "gold_label": "B"}

    (question,) = questions(read(tmp_path, lines(row), mapping={"answer": "gold_label", "subject": "topic"}))

    assert (question.right, question.subject) == (("B",), "t")
    assert question.metadata == {"answer": "A", "solution": "since"}


def test_choices_of_mapped_fields_may_be_fewer_in_some_rows(tmp_path: Path) -> None:
    rows = [{"q": f"q{at}", "a": "x", "b": "y", "c": "" if at else "z", "k": "B"} for at in range(2)]
    mapping = {"question": "q", "choices": "a+b+c", "answer": "k"}

    assert [each.choices for each in questions(read(tmp_path, lines(*rows), mapping=mapping))] == [
        ("x", "y", "z"),
        ("x", "y"),
    ]


def test_a_mapped_field_that_is_missing_is_named(tmp_path: Path) -> None:
    rows = lines({"stem": "q", "choices": ["x", "y"]}, {"stem": "r", "choices": ["x", "y"]})
    row, _ = read(tmp_path, rows, mapping={"question": "sten"}).rows()

    assert "field 'sten': there is no such field. Did you mean 'stem'?" in str(row.trouble)


@pytest.mark.parametrize("held", [lambda row: {"q1": row, "q2": row}, lambda row: row])
def test_a_mapped_field_that_questions_by_id_or_a_single_one_lack_is_pointed_at(
    tmp_path: Path, held: Callable[[object], object]
) -> None:
    """It was said that questions by id are expected, in a file that had nothing else."""
    content = json.dumps(held({"stem": "q", "choices": ["x", "y"]}))
    with pytest.raises(QuestionFileError, match=r"Its questions may lack fields that --map names: sten, choices\."):
        list(read(tmp_path, content, mapping={"question": "sten", "choices": "choices", "id": ""}).rows())
