"""Choices that combine statements or match two lists, however a text writes them."""

from __future__ import annotations

import pytest

from tests.unit.workers.scoring.extract.extracting import label


@pytest.mark.parametrize(
    "said",
    [
        "A-1, B-2, C-3",
        "A - 1, B - 2, C - 3",
        "A → 1, B → 2 and C → 3",
        "A: 1; B: 2; C: 3",
        "(A) - (1), (B) - (2), (C) - (3)",
        "A – 1\nB – 2\nC – 3",
    ],
)
def test_a_matching_is_no_label_however_its_pairs_are_written(said: str) -> None:
    """Its first letter was taken for the answer."""
    pairs = ("A-3, B-1, C-2", "A-1, B-2, C-3", "A-2, B-3, C-1", "A-1, B-3, C-2")
    assert label(said, pairs) == label(f"The correct option is {said}.", pairs) == "B"
    assert label(f"**{said}**\n\nThe answer is B.", pairs) == "B"
    assert label(f"The answer is {said}.", (*pairs[:1], "A-2, B-1, C-3", *pairs[2:])) is None


ROMAN = ("I only", "I and II", "II and III", "I, II and III")


ONLY = ("1 only", "2 only", "Both 1 and 2", "Neither 1 nor 2")


SMALL = ("a, b", "b, c", "a, c", "a, b, c")


@pytest.mark.parametrize(
    ("choices", "text", "read"),
    [
        (ROMAN, "The answer is I, II, and III.", "D"),
        (ROMAN, "I & II", "B"),
        (ROMAN, "(I) and (II)", "B"),
        (ROMAN, "Statements I and II are correct.", "B"),
        (ROMAN, "I is right, II is right, III is wrong. So the answer is I and II only.", "B"),
        (ROMAN, "I think it is only I.", "A"),
        (ROMAN, "I and II are correct. III is also correct.", None),
        (ROMAN, "If I and II are correct, then III must be false.", None),
        (ROMAN, "I and II are not correct.", None),
        (ROMAN, "The answer is I and III.", None),
        (ROMAN, "I, for one, cannot say.", None),
        (ROMAN, "I and II are correct. The answer is B.", "B"),
        (ROMAN, "The answer is 2.", None),
        (ONLY, "Only statement 2 is correct.", "B"),
        (ONLY, "The answer is 1 alone.", "A"),
        (ONLY, "1 and 2 are both right.", "C"),
        (ONLY, "Neither 1 nor 2 is correct.", "D"),
        (ONLY, "Only 1 is incorrect.", None),
        (SMALL, "a, b and c", "D"),
        (SMALL, "The correct options are a, c.", "C"),
        (SMALL, "b", "B"),
        (("1 and 2", "2 and 3", "1, 2 and 3", "None of the above"), "Answer: 1,2,3", "C"),
    ],
)
def test_statements_that_choices_combine_are_read_however_they_are_listed(
    choices: tuple[str, ...], text: str, read: str | None
) -> None:
    assert label(text, choices) == read


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("答案是①,②错误。", None),
        ("答案是①,②③不正确。", None),
        ("答案是①,②。", "C"),
        ("答案是①、②。③错误。", "C"),
    ],
)
def test_a_circled_statement_that_is_called_wrong_is_not_joined_to_the_right_ones(text: str, read: str | None) -> None:
    assert label(text, ("①", "②", "①②", "①②③")) == read


@pytest.mark.parametrize(
    "text",
    [
        "Statement I is true. Statement II is false. Option C is correct.",
        "P is true and Q is false. Option (C) is correct.",
        "R is false. C is the correct answer.",
        "Statement I is true and statement II is false. (C) is correct.",
    ],
)
def test_a_label_called_right_is_read_beside_statements_that_are_judged(text: str) -> None:
    assert label(text) == "C"
    assert label("So A is correct and R is false.") is None


@pytest.mark.parametrize(
    ("choices", "text", "read"),
    [
        (("1 and 2 only", "2 and 3 only", "1 and 3 only"), "**1** and **3** only", "C"),
        (("1 and 2 only", "2 and 3 only", "1 and 3 only"), "**1 and 3** only", "C"),
        (("A and B only", "B and C only", "A and C only", "A, B and C"), "The answer is B, B and C only.", "B"),
        (("A and B only", "B and C only", "A and C only", "A, B and C"), "The answer is D, A, B and C.", "D"),
        (("A and B only", "B and C only", "A and C only", "A, B and C"), "Only option B is correct.", "B"),
        (("(a) and (b)", "(b) and (c)", "(a) and (c)"), "The answer is C, (a) and (c).", "C"),
        (("(a) and (b)", "(b) and (c)", "(a) and (c)"), "The correct answer is (c) only.", "C"),
        (("a and b", "b and c", "a and c"), "The answer is a, b and c.", None),
        (("A-3, B-1, C-2", "A-1, B-2, C-3", "A-2, B-3, C-1"), "**A**-1, **B**-2, **C**-3", "B"),
        (("A-3, B-1, C-2", "A-1, B-2, C-3", "A-2, B-3, C-1"), "**A** - 1, **B** - 2, **C** - 3", "B"),
    ],
)
def test_a_combination_is_read_in_bold_and_behind_its_own_label(
    choices: tuple[str, ...], text: str, read: str | None
) -> None:
    assert label(text, choices) == read


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("答案是1和3。", "C"),
        ("答案是1和4。", None),
        ("答案是11和3。", None),
        ("Die Antwort ist 1 und 3.", "C"),
        ("La respuesta es 1, 2 y 3.", "D"),
        ("答えは1と3です。", "C"),
        ("उत्तर: 1 और 3", "C"),
        ("الإجابة: 1 و 3", "C"),
    ],
)
def test_statements_are_combined_in_other_languages_too(text: str, read: str | None) -> None:
    assert label(text, ("1 and 2 only", "2 and 3 only", "1 and 3 only", "1, 2 and 3")) == read
