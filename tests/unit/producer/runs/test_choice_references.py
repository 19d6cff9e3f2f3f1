"""Choices that speak of each other, and runs that show them in other orders than their file."""

from __future__ import annotations

import pytest

from benchmarks.stand import set_words
from producer.runs.choice_references import refers_to_others
from tests.support import make_question
from tests.unit.producer.conftest import Producer, WriteRows

BOTH = {"id": "q1", "question": "Which?", "choices": ["iron", "zinc", "both A and B", "neither A nor B"], "answer": "C"}
ABOVE = {"id": "q2", "question": "Which?", "choices": ["iron", "zinc", "none of the above"], "answer": "C"}
PLAIN = {"id": "q3", "question": "Which?", "choices": ["iron", "zinc", "tin"], "answer": "C"}


@pytest.mark.parametrize(
    "choice",
    [
        "Both A and B",
        "A & B",
        "(a) and (b) only",
        "neither A nor B is correct.",
        "A, B",
        "All of the above.",
        "none above",
        "All of the above are correct.",
        "None of the above, it never works",
        "Can be any of the above",
    ],
)
def test_a_choice_that_names_others_by_letter_or_place_is_known(choice: str) -> None:
    assert refers_to_others(make_question(1, choices=("iron", "zinc", choice))) == choice


@pytest.mark.parametrize(
    "choices",
    [
        ("iron", "zinc", "none of these"),  # true in whatever order
        ("A and B", "B and C", "A and C"),  # of statements in the question
        ("group A", "a metal", "A and T"),
        ("iron", "zinc", "both iron and a salt of it, as stated above"),
        ("iron", "zinc", "all metals above zinc"),
    ],
)
def test_a_choice_that_names_no_other_by_letter_or_place_is_left_alone(choices: tuple[str, ...]) -> None:
    assert refers_to_others(make_question(1, choices=choices, answer="A")) == ""


def test_who_moves_choices_that_speak_of_each_other_is_warned(producer: Producer, write_rows: WriteRows) -> None:
    path = write_rows(BOTH, ABOVE, PLAIN)

    def warned(*settings: str) -> bool:
        words = set_words(settings)
        return "warning: 2 questions with a choice that refers to others" in producer("enqueue", path, *words).stderr

    assert warned("mode=letter", "circular=true")
    assert warned("mode=generate", "shuffle=true")
    assert not warned("mode=letter"), "they stand as in the file"
    assert not warned("mode=likelihood", "shuffle=true"), "no order is shown"
