"""What labels choices: marks that they begin with, letters beside them; and choices that cannot be told apart."""

from __future__ import annotations

import re
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from benchmarks.layout_files import lines
from producer.http.bodies import QuestionIn
from producer.readers.record import FieldTrouble
from tests.unit.producer.conftest import Producer, WriteRows
from tests.unit.producer.readers.keyed import keys, understood
from tests.unit.producer.readers.reading import questions, read


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
    row = {"question": "q", "options": [{"wording": "x"}, {"wording": "y"}], "answer": "A"}
    (told,) = told_of(tmp_path, row)
    assert "found {'wording': 'x'}, in which no field is called text, content," in told


@pytest.mark.parametrize(
    "options",
    [
        [{"Label": "A", "Text": "red"}, {"Label": "B", "Text": "blue"}],
        [{"optionText": "red"}, {"optionText": "blue"}],
        {"Label": ["A", "B"], "Text": ["red", "blue"]},
        [{"_id": "6501aa", "text": "red"}, {"_id": "6501ab", "text": "blue"}],
        [{"id": "A", "text": "red", "ID": "6501aa"}, {"id": "B", "text": "blue", "ID": "6501ab"}],
    ],
)
def test_names_inside_choices_may_be_spelled_in_any_way(tmp_path: Path, options: object) -> None:
    (question,) = questions(read(tmp_path, lines({"question": "q", "options": options, "answer": "B"})))
    assert (list(question.choices), question.right) == (["red", "blue"], ("B",))


def test_a_cell_whose_names_are_numbers_is_a_bad_row(tmp_path: Path) -> None:
    (told,) = told_of(tmp_path, {"question": "q", "options": "[{1: 'a'}, {1: 'b'}]", "answer": "A"})
    assert "in which no field is called text" in told


IN_ORDER = ["A. red", "B. blue", "C. green"]
MIXED = ["B. red", "A. blue", "C. green"]


def contained(texts: list[str]) -> dict[str, dict[str, Any]]:
    """The same choices in every form that a record may have them in."""
    labelled = [{"label": label, "text": text} for label, text in zip("ABC", texts, strict=True)]
    return {
        "list": {"options": texts},
        "objects": {"options": [{"text": text} for text in texts]},
        "labelled objects": {"choices": labelled},
        "two lists": {"choices": {"text": texts, "label": ["A", "B", "C"]}},
        "by label": {"options": dict(zip("ABC", texts, strict=True))},
        "columns": dict(zip("ABC", texts, strict=True)),
        "lettered columns": {f"option_{letter}": text for letter, text in zip("abc", texts, strict=True)},
        "numbered columns": {f"choice{number}": text for number, text in enumerate(texts, start=1)},
        "own": {"choices": texts},
    }


@pytest.mark.parametrize("kind", contained(IN_ORDER))
@pytest.mark.parametrize("marks", [IN_ORDER, ["(a) red", "(b) blue", "(c) green"], ["A.red", "B.blue", "C.green"]])
@pytest.mark.parametrize("answer", ["B", "blue", "B. blue"])
def test_marks_in_order_are_no_part_of_the_choices_in_whatever_form_they_come(
    tmp_path: Path, kind: str, marks: list[str], answer: str
) -> None:
    """They were scored as part of each text, so that the label decided, and were shown twice."""
    given = marks[1] if answer == "B. blue" else answer
    (question,) = questions(read(tmp_path, lines({"question": "q", **contained(marks)[kind], "answer": given})))
    assert (question.choices, question.right) == (("red", "blue", "green"), ("B",))


@pytest.mark.parametrize("kind", ["labelled objects", "columns", "own"])
def test_marks_stay_where_few_questions_of_a_file_have_them_so_that_prompts_are_everybodys(
    tmp_path: Path, kind: str
) -> None:
    plain = {"question": "p", **contained(["x", "y", "z"])[kind], "answer": "B"}
    row = {"question": "q", **contained(IN_ORDER)[kind], "answer": "B"}
    found = questions(read(tmp_path, lines(plain, {**plain, "question": "r"}, row)))
    assert [(question.choices, question.right) for question in found[2:]] == [(tuple(IN_ORDER), ("B",))]
    found = questions(read(tmp_path, lines(plain, row)))
    assert [question.choices for question in found] == [("x", "y", "z"), ("red", "blue", "green")]


@pytest.mark.parametrize("kind", contained(MIXED))
@pytest.mark.parametrize("marks", [MIXED, ["B.red", "A.blue", "C.green"]])
def test_marks_out_of_order_label_the_choices_unless_something_else_does(
    tmp_path: Path, kind: str, marks: list[str]
) -> None:
    """Key A was the one that is marked B, without a word."""
    row = {"question": "q", **contained(marks)[kind], "answer": "A"}
    if kind in {"list", "objects"}:
        (question,) = questions(read(tmp_path, lines(row)))
        assert question.choice_text(question.right[0]) == "blue"
    else:
        (told,) = told_of(tmp_path, row)
        assert "is marked B: an answer could mean the label or the mark" in told or "marked B, A, C" in told


def test_marks_with_gaps_stay_where_the_right_choice_is_not_told_by_a_letter(tmp_path: Path) -> None:
    scores = {"(A) red": 0, "(C) blue": 1, "(D) green": 0}
    (question,) = questions(read(tmp_path, lines({"input": "q", "target_scores": scores})))
    assert (question.choices, question.right) == (tuple(scores), ("B",))


@pytest.mark.parametrize("kind", [*contained(IN_ORDER), "scores", "right and wrong"])
def test_whatever_choices_begin_with_they_are_read_or_their_row_is_refused(tmp_path: Path, kind: str) -> None:
    begun = ("(A) x", "(B) y", "(C) z", "A. x", "B.red", "2. y")
    read_right = 0
    for texts in map(list, permutations(begun, 3)):
        forms = contained(texts) | {
            "scores": {"target_scores": {text: int(text == texts[1]) for text in texts}},
            "right and wrong": {"correct_answer": texts[1], "distractor1": texts[0], "distractor2": texts[2]},
        }
        answer = {} if kind in {"scores", "right and wrong"} else {"answer": texts[1]}
        (row,) = read(tmp_path, lines({"question": "q", **forms[kind], **answer})).rows()
        if row.question is None:
            assert row.trouble is not None
        elif row.question.right:
            found = row.question.choice_text(row.question.right[0])
            assert texts[1].endswith(found), (texts, row.question)
            read_right += 1
    assert read_right > 90, "of 120: most of them are read"


def test_it_is_said_that_labels_were_removed(producer: Producer, write_rows: WriteRows) -> None:
    row = {"question": "q", "choices": IN_ORDER, "answer": "B"}
    for command in (("inspect",), ("enqueue", "--dry-run")):
        result = producer(command[0], write_rows(row), *command[1:])
        assert "3 choices, labels A–C removed from their texts" in result.stdout
        plain = producer(command[0], write_rows({**row, "choices": ["x", "y", "z"]}), *command[1:])
        assert "removed" not in plain.stdout


def test_a_flag_stays_with_its_choice_where_marks_become_its_label(tmp_path: Path) -> None:
    marked = [{"text": text, "correct": text.endswith("blue")} for text in MIXED]
    (question,) = questions(read(tmp_path, lines({"question": "q", "options": marked})))
    assert question.choice_text(question.right[0]) == "blue"


@pytest.mark.parametrize(
    "texts",
    [
        ["1. FC Köln", "2. Bundesliga", "3. Liga"],
        ["A.N. Whitehead", "B.B. King", "C.S. Lewis"],
        ["A.B", "B.C", "C.A"],
        ["A and B", "B and C", "C and A"],
    ],
)
@pytest.mark.parametrize("kind", ["labelled objects", "columns", "own"])
def test_numbers_initials_and_products_are_no_marks_beside_labels(tmp_path: Path, kind: str, texts: list[str]) -> None:
    (question,) = questions(read(tmp_path, lines({"question": "q", **contained(texts)[kind], "answer": "B"})))
    assert (list(question.choices), question.right) == (texts, ("B",))


def test_over_http_marks_are_no_part_of_the_choices_either() -> None:
    question = QuestionIn(question="q", choices=IN_ORDER, answer="B. blue").to_question()
    assert (question.choices, question.right) == (("red", "blue", "green"), ("B",))
    with pytest.raises(FieldTrouble, match="the choices are marked B, A, C, in this order") as caught:
        QuestionIn(question="q", choices=MIXED, answer="A").to_question()
    assert caught.value.hint == "Remove the marks."


def test_marks_are_what_choices_are_called_in_whatever_order(tmp_path: Path) -> None:
    assert keys(tmp_path, lines({"question": "q", "options": ["(B) red", "(A) blue"], "answer": "A"})) == ["B"]
    numbered = ["1. red", "2. blue", "3. green"]
    assert keys(tmp_path, lines(*({"question": f"q{at}", "options": numbered, "answer": at} for at in (1, 2)))) == [
        "A",
        "B",
    ]


@pytest.mark.parametrize(
    ("choices", "told"),
    [
        ({"text": ["w", "x", "y"], "label": ["A", "B", "B"]}, "'B' names no choice.*Two choices are labelled B"),
        ({"text": ["w", "x", "y"], "label": ["A", "B"]}, "found 2 labels for 3 choices. Label all choices"),
        ([{"label": "A", "text": "w"}, {"text": "x"}, {"label": "B", "text": "y"}], "choice 2 of 3 has no label"),
    ],
)
def test_labels_that_do_not_tell_all_choices_apart_are_refused(tmp_path: Path, choices: Any, told: str) -> None:
    """The first choice that is called so was the key, or the one in the letter's place."""
    (row,) = keys(tmp_path, lines({"question": "q", "choices": choices, "answerKey": "B"}))

    assert re.search(told, row)


def test_labels_that_are_null_are_none(tmp_path: Path) -> None:
    choices = [{"label": None, "text": "w"}, {"label": None, "text": "x"}]

    assert keys(tmp_path, lines({"question": "q", "choices": choices, "answerKey": "B"})) == ["B"]


def test_our_own_choices_whose_marks_are_in_another_order_are_refused(tmp_path: Path) -> None:
    content = lines({"question": "q", "choices": ["(B) red", "(A) blue"], "answer": "A"})

    (told,) = keys(tmp_path, content)

    assert "the choices are marked B, A" in told
    assert "--map choices=choices" in told
    assert keys(tmp_path, content, choices="choices") == ["B"]


@pytest.mark.parametrize(
    "options",
    [
        [{"label": "Paris", "value": "A"}, {"label": "Rome", "value": "B"}],
        [{"option": "A", "answer": "Paris"}, {"option": "B", "answer": "Rome"}],
        [{"option": "A", "description": "Paris"}, {"option": "B", "description": "Rome"}],
        [{"choice": "A", "wording": "Paris", "is_correct": "no"}, {"choice": "B", "wording": "Rome"}],
    ],
)
def test_letters_are_labels_of_the_one_text_beside_them_whatever_both_are_called(
    tmp_path: Path, options: list[dict[str, str]]
) -> None:
    (row,) = understood(tmp_path, lines({"question": "q", "options": options, "answer": "B"})).rows()

    assert row.question
    assert (row.question.choices, row.question.right) == (("Paris", "Rome"), ("B",))


def test_choices_that_are_letters_stay_where_no_text_stands_beside_each(tmp_path: Path) -> None:
    options = [{"option": "A", "color": "red", "shape": "round"}, {"option": "B"}]

    (row,) = understood(tmp_path, lines({"question": "q", "options": options, "answer": "B"})).rows()

    assert row.question
    assert (row.question.choices, row.question.right) == (("A", "B"), ("B",))
