"""What is a question, and what is refused to be one."""

from __future__ import annotations

import hashlib
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from contract import Question
from contract.question import content_id, identity, question_hash
from tests.support import make_question
from tests.unit.contract.strategies import questions, words


def question(**changes: Any) -> Question:
    fields: dict[str, Any] = {"id": "q", "question": "Which?", "choices": ["this", "that"]}
    return Question(**(fields | changes))


@pytest.mark.parametrize(
    ("count", "labels"),
    [(2, "AB"), (4, "ABCD"), (26, "ABCDEFGHIJKLMNOPQRSTUVWXYZ")],
)
def test_every_choice_gets_a_letter_from_a_on(count: int, labels: str) -> None:
    made = question(choices=[f"choice {number}" for number in range(count)], answer=labels[-1])
    assert made.labels == tuple(labels)
    assert [made.choice_text(label) for label in labels] == list(made.choices)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"choices": ["only"]}, "at least 2 items"),
        ({"choices": [str(number) for number in range(27)]}, "at most 26 items"),
        ({"choices": ["this", " "]}, "match pattern"),
        ({"choices": ["this", 3]}, "valid string"),
        ({"question": ""}, "match pattern"),
        ({"question": "\n\t\u3000"}, "match pattern"),
        ({"question": None}, "valid string"),
        ({"answer": "C"}, "answer 'C' is none of the labels A, B"),
        ({"answer": "a"}, "answer 'a' is none of the labels A, B"),
        ({"answer": ""}, "answer '' is none of the labels A, B"),
        ({"answer": 0}, "valid string"),
        ({"answer": "A", "also_right": ["C"]}, "are not all among the labels A, B"),
        ({"answer": None, "also_right": ["B"]}, "are not all among the labels"),
        ({"answer": "B", "also_right": ["A"]}, "not each label once, in order"),
        ({"answer": "A", "also_right": ["A"]}, "not each label once, in order"),
        ({"id": ""}, "at least 1 character"),
        ({"id": "x" * 201}, "at most 200 characters"),
        ({"id": "two\nlines"}, "match pattern"),
        ({"id": "ends in a line feed\n"}, "match pattern"),
        ({"id": "nul\x00"}, "match pattern"),
        ({"id": 7}, "valid string"),
        ({"metadata": {"level": [1]}}, "metadata.level"),
        ({"metadata": {"level": float("inf")}}, "finite number"),
        ({"metadata": {"level": float("nan")}}, "finite number"),
        ({"anwser": "A"}, "Extra inputs are not permitted"),
    ],
)
def test_what_cannot_be_asked_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=re.escape(message)):
        question(**changes)


@pytest.mark.parametrize("field", ["id", "question", "subject", "context"])
def test_half_a_surrogate_pair_is_refused_because_no_file_could_hold_it(field: str) -> None:
    with pytest.raises(ValidationError, match="raw data as a unicode string"):
        question(**{field: "half \ud83d"})


@pytest.mark.parametrize("metadata", [{"key": "\ud83d"}, {"\ud83d": "value"}])
def test_half_a_surrogate_pair_is_refused_in_metadata_too(metadata: dict[str, str]) -> None:
    with pytest.raises(ValidationError, match="raw data as a unicode string"):
        question(metadata=metadata)


@pytest.mark.parametrize("name", ["x", "x" * 200, "7", "räka/7 #3", " ", "題"])
def test_an_id_is_any_short_text_without_control_characters(name: str) -> None:
    assert question(id=name).id == name


def test_a_question_cannot_be_changed() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        question().answer = "A"


@given(questions())
def test_json_gives_back_the_same_question(made: Question) -> None:
    again = Question.model_validate_json(made.canonical())
    assert again == made
    assert repr(again) == repr(made), "1, 1.0 and True are equal, and still not the same"
    assert again.canonical() == made.canonical()
    assert Question.model_validate_json(made.model_dump_json()) == made


@pytest.mark.parametrize(
    "changes",
    [
        {"id": "other"},
        {"question": "Other?"},
        {"choices": ("1", "0", "2", "3")},
        {"answer": None},
        {"subject": None},
        {"context": "Some."},
        {"context": ""},
        {"metadata": {"level": 1}},
        {"metadata": {"level": 1.0}},
        {"metadata": {"level": True}},
        {"metadata": {"level": None}},
    ],
    ids=str,
)
def test_the_canonical_form_changes_with_whatever_is_asked_or_carried(changes: dict[str, Any]) -> None:
    plain = make_question(0)
    forms = {make_question(0, **each).canonical() for each in [{}, changes, {"metadata": {"another": 1}}]}
    assert plain.canonical() in forms
    assert len(forms) == 3


def test_a_default_that_is_written_out_asks_the_same() -> None:
    written = question(answer=None, subject=None, context=None, metadata={})
    assert written.canonical() == question().canonical() == b'{"id":"q","question":"Which?","choices":["this","that"]}'


def test_a_content_id_never_changes_from_one_version_to_the_next() -> None:
    assert content_id("Which?", ["this", "that"]) == content_id("Which?", ("this", "that")) == "ad447748742c85f1"


@given(words, st.lists(words, min_size=2, max_size=5, unique=True))
def test_a_content_id_is_an_id_that_changes_with_the_text_and_the_order_of_choices(
    asked: str, choices: list[str]
) -> None:
    made = content_id(asked, choices)
    assert re.fullmatch("[0-9a-f]{16}", made)
    assert question(id=made).id == made
    assert len({made, content_id(asked + "?", choices), content_id(asked, choices[::-1])}) == 3


def test_several_choices_may_be_right() -> None:
    made = question(choices=["x", "y", "z"], answer="A", also_right=["C"])

    assert made.right == ("A", "C")
    assert question().right == ()
    assert Question.model_validate_json(made.canonical()) == made


def test_a_question_with_one_right_choice_is_written_as_before() -> None:
    assert question(answer="B").canonical() == b'{"id":"q","question":"Which?","choices":["this","that"],"answer":"B"}'


@pytest.mark.parametrize(
    "other",
    [
        {"question": " which? "},
        {"choices": ["That", "this\n"], "answer": "A"},
        {"context": ""},
        {"id": "other", "subject": "optics", "answer": None},
    ],
)
def test_a_question_is_the_same_in_another_file_whatever_its_case_white_space_order_or_row(
    other: dict[str, Any],
) -> None:
    assert identity(question(**other)) == identity(question())


@pytest.mark.parametrize(
    "other", [{"question": "Which one?"}, {"choices": ["this", "those"]}, {"context": "Of the two on the table."}]
)
def test_a_question_with_another_text_choice_or_context_is_another(other: dict[str, Any]) -> None:
    assert identity(question(**other)) != identity(question())


@pytest.mark.parametrize(
    ("text", "answer", "expected"),
    [
        ("Which?\nA) x\nB) y", "A", "Which? A) x B) y||A"),
        ("  Which?\n\nA) x ", " A) x\n", "Which? A) x||A) x"),
    ],
)
def test_the_question_hash_is_the_predecessors(text: str, answer: str, expected: str) -> None:
    """Two line feeds become two spaces, and those one; white space at the ends is cut from both."""
    assert question_hash(text, answer) == hashlib.sha256(expected.encode()).hexdigest()[:16]
