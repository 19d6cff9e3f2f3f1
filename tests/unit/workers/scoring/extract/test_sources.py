"""Labels that say where something stands, and names that begin like labels; and answers that were stopped in a tag."""

from __future__ import annotations

import pytest

from tests.unit.workers.scoring.extract.extracting import CITIES
from workers.scoring.extract import extract


@pytest.mark.parametrize("label", "ABCD")
@pytest.mark.parametrize(
    "text",
    [
        "<answer>{label}",
        "<answer>({label})",
        "It lies inland.\n<answer>{label}. {city}",
        "<answer>{label}</",
        "\\boxed{{{label}",
    ],
)
def test_an_answer_whose_closing_tag_was_the_stop_string_is_read(text: str, label: str) -> None:
    found = extract(text.format(label=label, city=CITIES["ABCD".index(label)]), CITIES)
    assert (found.label, found.rule) == (label, "answer-tag")


@pytest.mark.parametrize(
    "text", ["<answer>Athens", "<answer>A careful look", "<answer>", "<answer>B or", "\\boxed{A and"]
)
def test_a_tag_that_was_left_in_the_middle_of_a_text_is_not_read(text: str) -> None:
    assert extract(text, CITIES).label is None


@pytest.mark.parametrize(
    "text",
    [
        "{city} is what it must be, according to ({label}).",
        "The correct answer is in [{label}].",
        "This is stated in [{label}].",
        "It is stated in passage [{label}].",
        "See [{label}].",
        "Source: [{label}]",
        "The answer is given in ({label}).",
        "The answer follows from ({label}).",
        "{other} is the one that lies inland [{label}].",
    ],
)
@pytest.mark.parametrize("label", "ABCD")
def test_a_label_that_says_where_something_stands_is_no_answer(text: str, label: str) -> None:
    place = "ABCD".index(label)
    said = text.format(label=label, city=CITIES[place], other=CITIES[place - 1])
    assert extract(said, CITIES).label in {None, "ABCD"[place - 1] if "{other}" in text else None}


@pytest.mark.parametrize("label", "ABCD")
@pytest.mark.parametrize(
    "text",
    [
        "It lies on the Seine, as stated in option {label}.",
        "The Seine flows through it, as described by choice {label}.",
    ],
)
def test_an_option_that_says_what_the_text_says_is_the_answer_and_no_source(text: str, label: str) -> None:
    assert extract(text.format(label=label), CITIES).label == label


@pytest.mark.parametrize("label", "ABCD")
@pytest.mark.parametrize(
    "text", ["{label}. {city} [1]", "{label}. {city} (Passage 1)", "{label}) {city} - because it lies inland"]
)
def test_an_answer_with_its_source_or_reason_is_read_whichever_it_is(text: str, label: str) -> None:
    assert extract(text.format(label=label, city=CITIES["ABCD".index(label)]), CITIES).label == label


@pytest.mark.parametrize(
    "text",
    [
        "A. Smith (2010) reports on it.",
        "C. S. Lewis was born there.",
        "A. M. Turing",
        "B. Jones et al. found it.",
        "D. J. R. Hill wrote of it.",
    ],
)
def test_the_initials_of_a_person_are_no_label(text: str) -> None:
    assert extract(text, CITIES).label is None
