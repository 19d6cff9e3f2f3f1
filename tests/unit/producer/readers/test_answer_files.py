"""Answers in a file of their own (`--answers`)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from benchmarks.layout_files import CASES, lines
from contract.errors import QuestionFileError
from producer.intake.selection import Selection
from producer.intake.survey import survey
from producer.readers import HowToRead, Source
from tests.unit.producer.readers.reading import questions, read


def test_answers_can_stand_in_a_file_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "labels.lst").write_text("1\n0\n")
    rows = lines(*({"goal": "g", "sol1": "x", "sol2": str(n)} for n in range(2)))

    file = read(tmp_path, rows, answers=tmp_path / "labels.lst")

    assert [each.right for each in questions(file)] == [("B",), ("A",)]
    with pytest.raises(QuestionFileError, match="fewer answers than questions: 2 for 4"):
        list(read(tmp_path, rows + rows, answers=tmp_path / "labels.lst").rows())


def test_a_pipe_of_answers_is_refused_as_such(tmp_path: Path) -> None:
    """As `--answers <(cut …)` passes it: it was said to have no answers, as looking at its format had emptied it."""
    os.mkfifo(tmp_path / "answers")
    with pytest.raises(QuestionFileError, match=r"answers: is a pipe, .* Write the answers to a file\.$"):
        read(tmp_path, lines({"question": "q", "options": ["x", "y"]}), answers=tmp_path / "answers")


@pytest.mark.parametrize("own", [{}, {"answerKey": "D"}, {"label": 3}, {"answer": "D"}])
def test_a_blank_line_in_a_file_of_answers_is_a_question_without_a_key(tmp_path: Path, own: dict[str, Any]) -> None:
    """Every later question got the answer of the next one."""
    (tmp_path / "answers.txt").write_text("A\n\nC\n \nA\n\n\n")
    rows = lines(*({"question": f"q{n}", "options": ["x", "y", "z", "w"], **own} for n in range(5)))

    found = questions(read(tmp_path, rows, answers=tmp_path / "answers.txt"))

    assert ["".join(each.right) for each in found] == ["A", "", "C", "", "A"]


def test_a_blank_line_is_no_key_even_where_minus_one_is_a_choice(tmp_path: Path) -> None:
    (tmp_path / "answers.txt").write_text("up\n\n-1\n")
    rows = lines(*({"question": f"q{n}", "options": ["up", "-1"]} for n in range(3)))

    found = questions(read(tmp_path, rows, answers=tmp_path / "answers.txt"))

    assert ["".join(each.right) for each in found] == ["A", "", "B"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("answer\nA\nB\nC\n", "more answers than questions: 4 for 3"),
        ("A\n\nB\n\nC\n", "more answers than questions: 5 for 3"),
        ("A\nB\n\n", "fewer answers than questions: 2 for 3"),
        ("", "fewer answers than questions: 0 for 3"),
    ],
)
def test_another_number_of_answers_is_refused_before_any_row_is_used(tmp_path: Path, text: str, told: str) -> None:
    """With --limit, the end of neither file was reached, and the answers were those of other questions."""
    (tmp_path / "answers.txt").write_text(text)
    (tmp_path / "file").write_text(lines(*({"question": f"q{n}", "options": ["x", "y", "z"]} for n in range(3))))
    source = Source(tmp_path / "file", "file", HowToRead(answers=tmp_path / "answers.txt"))

    with pytest.raises(QuestionFileError, match=told) as caught:
        survey(source, Selection(limit=1))

    assert "in the order of file, without a header. A blank line is a question without a key" in str(caught.value)


@pytest.mark.parametrize(
    "own",
    [
        {"answer": "C"},
        {"answerKey": "B"},
        {"answer_key": "B"},
        {"Answer Key": "B"},
        {"answer_idx": 1, "answer": "y"},
        {"label": 1},
        {"correct_answer": "y"},
    ],
)
def test_a_file_of_answers_counts_whatever_answers_the_questions_have(tmp_path: Path, own: dict[str, Any]) -> None:
    labels = tmp_path / "labels.lst"
    labels.write_text("A\nB\n")
    rows = lines(*({"question": f"q{n}", "choices": ["x", "y"], **own} for n in range(2)))

    file = read(tmp_path, rows, answers=labels)

    assert [each.right for each in questions(file)] == [("A",), ("B",)]
    told = file.fields.describe().split(" (")[0].removesuffix(" · id ← none")
    assert told == f"question ← question · choices ← choices · answer ← {labels}"


@pytest.mark.parametrize("outer", [{"answerKey": "B"}, {}])
@pytest.mark.parametrize("inner", [{"answer_key": "B"}, {}])
def test_it_counts_beside_nested_questions_too(tmp_path: Path, outer: dict[str, str], inner: dict[str, str]) -> None:
    (tmp_path / "labels.lst").write_text("A\n")
    choices = [{"text": "x", "label": "A"}, {"text": "y", "label": "B"}]
    row = {"id": "r", "question": {"stem": "q", "choices": choices, **inner}, **outer}

    (question,) = questions(read(tmp_path, lines(row), answers=tmp_path / "labels.lst"))

    assert question.right == ("A",)


@pytest.mark.parametrize(("said", "right"), [("A", ("A",)), ("B", ("B",)), ("-1", ())])
def test_it_counts_whatever_the_choices_say_of_themselves(tmp_path: Path, said: str, right: tuple[str, ...]) -> None:
    (tmp_path / "labels.lst").write_text(f"{said}\nA\n")
    options = [{"text": "x", "correct": False}, {"text": "y", "correct": True}]
    rows = lines(*({"question": f"q{n}", "options": options} for n in range(2)))

    first, second = questions(read(tmp_path, rows, answers=tmp_path / "labels.lst"))

    assert (first.right, second.right) == (right, ("A",))


@pytest.mark.parametrize(
    "name",
    ["SciQ", "PubMedQA", "TruthfulQA", "TruthfulQA CSV", "BIG-bench", "BIG-bench on the hub", "instruction"],
)
def test_a_file_of_answers_is_refused_beside_a_layout_that_would_not_look_at_it(tmp_path: Path, name: str) -> None:
    case = CASES[name]
    labels = tmp_path / "labels.lst"
    labels.write_text("A\n" * len(case.questions))

    with pytest.raises(QuestionFileError, match=r"file: read as .*, it contains its own answers: .*labels\.lst"):
        read(tmp_path, case.content, answers=labels)


def test_a_file_of_answers_is_refused_beside_a_layout_that_is_said_and_has_its_own(tmp_path: Path) -> None:
    (tmp_path / "labels.lst").write_text("A\nB\n")

    with pytest.raises(QuestionFileError, match="it contains its own answers"):
        read(tmp_path, CASES["own"].content, layout="own", answers=tmp_path / "labels.lst")


def test_answers_are_mapped_or_given_apart_but_not_both(tmp_path: Path) -> None:
    (tmp_path / "labels.lst").write_text("A\n")
    row = lines({"question": "q", "choices": ["x", "y"], "label": 1})

    with pytest.raises(QuestionFileError, match=r"--map takes the answers from 'label', but --answers from .*labels"):
        read(tmp_path, row, answers=tmp_path / "labels.lst", mapping={"answer": "label"})
    (question,) = questions(read(tmp_path, row, answers=tmp_path / "labels.lst", mapping={"choices": "choices"}))
    assert question.right == ("A",)
