"""Which choice an answer means, and when nobody can know."""

from __future__ import annotations

import pytest

from producer.readers.answers import answer_label
from producer.readers.record import FieldTrouble


@pytest.mark.parametrize(
    ("found", "choices", "label"),
    [
        (None, ["x", "y"], None),
        ("B", ["x", "y"], "B"),
        ("b", ["x", "y"], "B"),
        (" b ", ["x", "y"], "B"),
        (0, ["x", "y"], "A"),
        (1, ["4", "0"], "B"),
        ("y", ["x", "y"], "B"),
        ("y ", ["x", "y"], "B"),
        ("A", ["A", "B"], "A"),
        ("a", ["a", "an"], "A"),
        ("2", ["1", "2"], "B"),
    ],
)
def test_an_answer_is_a_label_an_index_or_a_text(found: object, choices: list[str], label: str | None) -> None:
    assert answer_label(found, choices, untyped=False) == label


@pytest.mark.parametrize(
    ("found", "choices", "label"),
    [
        ("", ["x", "y"], None),
        ("B", ["x", "y"], "B"),
        ("1", ["x", "y"], "B"),
        ("1", ["0", "1"], "B"),
        ("7", ["7", "8"], "A"),
    ],
)
def test_in_csv_digits_are_an_index_or_a_text(found: str, choices: list[str], label: str | None) -> None:
    assert answer_label(found, choices, untyped=True) == label


@pytest.mark.parametrize(
    ("found", "choices", "untyped", "wanted"),
    [
        ("C", ["x", "y"], False, "'C' names no choice. "),
        ("z", ["x", "y"], False, "'z' names no choice"),
        ("", ["x", "y"], False, "'' names no choice"),
        (2, ["x", "y"], False, "found index 2, expected 0 to 1"),
        (-1, ["x", "y"], False, "found index -1"),
        ("1", ["x", "y"], False, "'1' names no choice"),
        (1.0, ["x", "y"], False, "1.0 names no choice"),
        (True, ["x", "y"], False, "True names no choice"),
        (["B"], ["x", "y"], False, "['B'] names no choice"),
        ("B", ["B", "x"], False, "'B' is ambiguous: it is a label (B) and the text of choice A (A)"),
        ("x", ["x", "x"], False, "ambiguous"),
        ("2", ["x", "y"], True, "'2' names no choice"),
        ("1", ["1", "2"], True, "ambiguous: it is the text of choice A (A) and a 0-based index (B)"),
        ("²", ["x", "y"], True, "names no choice"),
        ("1.0", ["x", "y"], True, "names no choice"),
    ],
)
def test_an_answer_that_names_no_choice_or_several_is_refused(
    found: object, choices: list[str], untyped: bool, wanted: str
) -> None:
    with pytest.raises(FieldTrouble) as caught:
        answer_label(found, choices, untyped=untyped)

    assert wanted in f"{caught.value.message} {caught.value.hint}"
    assert caught.value.field == "answer"


def test_an_index_in_quotes_is_explained() -> None:
    with pytest.raises(FieldTrouble) as caught:
        answer_label("1", ["x", "y"], untyped=False)

    assert "without quotes" in caught.value.hint
