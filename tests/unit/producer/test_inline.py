"""Choices inside a text: what belongs to a choice, and what only looks like the next one."""

from __future__ import annotations

import pytest

from producer.readers.inline import split_choices


@pytest.mark.parametrize(
    "text",
    [
        "Which is a noble gas? (A) helium (B) neon (C) Both (A) and (B) (D) None of these",
        "Which is a noble gas? A) helium B) neon C) Both A) and B) D) None of these",
        "Which is a noble gas? (1) helium (2) neon (3) Both (1) and (2) (4) None of these",
    ],
)
def test_a_choice_that_names_others_on_the_same_line_is_one_choice(text: str) -> None:
    found = split_choices(text)
    assert found is not None
    assert found.stem == "Which is a noble gas?"
    assert [each.replace("(", "").replace(")", "") for each in found.choices][0::3] == ["helium", "None of these"]
    assert len(found.choices) == 4


def test_a_choice_may_begin_with_a_mark_of_its_own() -> None:
    found = split_choices("Which is heavier? A) 1) iron 2) gold B) 1) gold 2) iron")
    assert found is not None
    assert found.choices == ("1) iron 2) gold", "1) gold 2) iron")


def test_a_stem_may_end_with_a_mark_of_its_own() -> None:
    found = split_choices("Find the slope in part (a) (A) 3 (B) 4")
    assert found is not None
    assert found.choices == ("3", "4")


def test_choices_in_two_columns_are_refused_rather_than_joined() -> None:
    assert split_choices("Best? (1) breeding (3) cloning (2) engineering (4) replication") is None


@pytest.mark.parametrize("separator", ["; ", ", ", " | ", " / ", " - ", "； "])
def test_what_separates_choices_on_one_line_is_no_part_of_them(separator: str) -> None:
    found = split_choices(separator.join(["Which is a city? A) Lyon", "B) Paris", "C) Nice"]))
    assert found is not None
    assert found.choices == ("Lyon", "Paris", "Nice")


def test_what_also_ends_the_last_choice_or_not_all_others_is_part_of_them() -> None:
    found = split_choices("Which? A) x; B) y; C) z;")
    assert found is not None
    assert found.choices == ("x;", "y;", "z;")
    found = split_choices("Which? A) 1, B) 2 C) 3")
    assert found is not None
    assert found.choices == ("1,", "2", "3")
