"""What holds of any text: its label is one of the question's, and it is read, however long it is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.workers.scoring.extract.extracting import CITIES, label
from workers.scoring.extract import extract
from workers.scoring.extract.rules import EXPLICIT, IMPLICIT

_PIECES = (
    "A B C D E I a c ( ) . , : ? ** \\boxed{ } <think> </think> the answer is Answer: not or and option 2 Paris Rome "
    "wait, so it's correct wrong if 答案是 \n"
)

RULES = {rule.__name__.replace("_", "-") for rule in (*EXPLICIT, *IMPLICIT)}

TEXTS = st.text() | st.lists(st.sampled_from(_PIECES.split(" ")), max_size=12).map(" ".join)


@given(TEXTS, st.lists(st.text(min_size=1), min_size=2, max_size=26))
def test_a_label_is_always_one_of_the_question(text: str, choices: list[str]) -> None:
    found = extract(text, choices)
    known = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"[: len(choices)]
    assert found.label is None or found.label in known
    assert set(found.candidates) <= set(known)
    assert (found.label is None) == (found.rule not in RULES)


@given(TEXTS, st.text(" \n\t\r", max_size=5))
def test_blanks_at_the_end_change_nothing(text: str, blanks: str) -> None:
    assert extract(text + blanks, CITIES) == extract(text, CITIES)


_WORDS = (
    "France lies in western Europe and the river runs through its largest city many people visit every year geography "
    "is taught at school maps show borders mountains a an island I we they think read"
)

PROSE = st.lists(st.sampled_from(_WORDS.split()), min_size=1, max_size=30).map(lambda words: f"See {' '.join(words)}.")


@given(PROSE, PROSE, st.sampled_from("ABCD"))
def test_prose_around_a_clear_answer_does_not_hide_it(before: str, after: str, letter: str) -> None:
    assert label(f"{before} The answer is {letter}. {after}") == letter


@pytest.mark.parametrize(
    "piece",
    [
        "answer is ",
        "the answer to ",
        "((((A",
        "**A** not ",
        "\\boxed{{",
        "<think>",
        "A or ",
        " ",
        "so A ",
        "Berlin ",
        "Paris, not Rome, ",
        "Hm.\n\nQuestion: Which?\n",
        "✅ A) Berlin\n",
        "答案是",
        "Q1: 25\n",
        "Q: a word\n",
        "So A (",
        "So A, and ",
        "that the answer is A, ",
        "We choose A as the ",
        "error of a word to ",
        "उत्तर A है, ",
        "正解はA、",
        "정답은 A라고 ",
        "not A but ",
        "10² ",
        "✅ A) Berlin is ",
        "| A | No |\n",
        '{"answer": "A"}\n',
        "maybe A, ",
        "La réponse est A, enfin ",
        "It's Paris, so A. ",
        "A-Berlin ",
        "A<br>",
        "<tr><td>A</td>",
        "<s>[INST] ",
        "| A<br>B |\n",
        "\\boxed{\\boxed{\n",
        "\nuser\n",
        "user\n\nA",
        "题目：A\n",
    ],
)
def test_a_hundred_kilobytes_of_anything_are_read(piece: str) -> None:
    """Under a second each; pytest's own limit would show a text that takes quadratic time."""
    assert label(piece * (100_000 // len(piece)) + "\n\nThe answer is C.") in {"C", None}
