"""No choice is read more easily than another: what is read of an answer must not depend on where its choice stands."""

from __future__ import annotations

import pytest

from tests.unit.workers.scoring.extract.extracting import CITIES, PLANETS
from workers.scoring.extract import extract

LANDS = ("Germany", "Spain", "France", "Italy")

#: The answer, and behind it what is wrong about each other choice, in their order.
EXPLAINED = [
    ("The correct answer is ({label}) {city}.\n\n{others}", "({label}) {city}: wrong, it is the capital of {land}."),
    ("The answer is {label}. {others}", "({label}) is wrong because {city} lies in {land}."),
    ("Answer: {label}) {city}\n\nExplanation:\n{others}", "{label}) {city} is not the capital; it lies in {land}.\n"),
    ("**Answer: {label}. {city}**\n\n{others}", "- {label}. {city} is incorrect, as it lies in {land}.\n"),
    ("{label}\n\n{others}", "{label} is incorrect because {city} lies in {land}.\n"),
    ("{label}. {city}\n\n{others}", "{label}. {city} is wrong: it lies in {land}.\n"),
    ("({label})\n\n{others}", "({label}) is wrong.\n"),
    ("**{label}) {city}**\n\nHere's why the others are wrong:\n\n{others}", "* **{label}) {city}** lies in {land}.\n"),
    ("{label}\n\nHere is why:\n\n{others}", "- {label}: {city} lies in {land}.\n"),
    ("So the answer is ({label}). {others}", "Option {label} would be the best choice for {land}. "),
    ("{label}) {city}. {others}", "{label} would be the answer for {land}. "),
    ("{label} is correct.\n{others}", "{label} is wrong.\n"),
]
#: What may be said of a statement, once for each choice.
SAID = [
    "The statement is {}.",
    "This is {} because water boils at 100 degrees.",
    "{}.",
    "{}, because water boils at 100 degrees.",
    "{}: water boils at 100 degrees.",
    "So it's {}.",
    "The statement is therefore {}.",
    "In conclusion, {}.",
    "{}. Water boils at 100 degrees.\n\nIt does so at sea level.",
    "The statement is {}.\n\nWater boils at 100 degrees.",
    "Water boils at 100 degrees.\n\nSo the statement is {}.",
    "The answer is {}.",
    "**{}**",
]


def explained(answer: str, other: str, right: int) -> str:
    """The answer that names the choice `right`, with what it says of the others."""
    rows = [{"label": "ABCD"[at], "city": CITIES[at], "land": LANDS[at]} for at in range(4)]
    others = "".join(other.format(**row) for at, row in enumerate(rows) if at != right)
    return answer.format(**rows[right], others=others)


@pytest.mark.parametrize(("answer", "other"), EXPLAINED)
def test_an_answer_before_what_is_wrong_about_the_other_choices_is_read_whichever_it_is(
    answer: str, other: str
) -> None:
    read = [extract(explained(answer, other, right), CITIES).label for right in range(4)]
    assert read == ["A", "B", "C", "D"]


@pytest.mark.parametrize(
    "answer", ["{}\n\n{} are wrong.", "{}. {} are wrong.", "The answer is {}, since {} are wrong."]
)
def test_an_answer_before_all_other_labels_in_one_sentence_is_read_whichever_it_is(answer: str) -> None:
    others = [[each for each in "ABCD" if each != label] for label in "ABCD"]
    texts = [
        answer.format(label, f"{one}, {two} and {three}")
        for label, (one, two, three) in zip("ABCD", others, strict=True)
    ]
    assert [extract(text, CITIES).label for text in texts] == ["A", "B", "C", "D"]


@pytest.mark.parametrize("said", SAID)
@pytest.mark.parametrize(
    "choices", [("True", "False"), ("Yes", "No"), ("yes", "no", "maybe"), ("Correct", "Incorrect"), ("right", "wrong")]
)
def test_a_verdict_on_a_statement_is_read_whichever_it_is(choices: tuple[str, ...], said: str) -> None:
    read = [extract(said.format(choice), choices).label for choice in choices]
    assert read == list("ABC"[: len(choices)])


@pytest.mark.parametrize("answer", ["{label}) {city}", "({label}) {city}", "{label}. {city}", "{label}"])
@pytest.mark.parametrize("before", ["", "Answer: ", "Answer:\n", "The choices are:\n"])
@pytest.mark.parametrize("first", range(3))
def test_choices_that_are_only_listed_are_none_wherever_the_list_begins(answer: str, before: str, first: int) -> None:
    listed = [answer.format(label="ABCD"[at], city=CITIES[at]) for at in range(first, 4)]
    assert extract(before + "\n".join(listed), CITIES).label is None


@pytest.mark.parametrize(
    "answer", ["{0}) {1}", "({0}) {1}", "{0}. {1}", "**{0}) {1}**", "The answer is ({0}) {1}.", "Answer: {0}. {1}"]
)
def test_a_choice_that_denies_something_is_read_behind_its_label_like_any_other(answer: str) -> None:
    choices = ("cannot be determined", "increases", "does not change", "is not defined", "isn't known")
    texts = [answer.format(label, choice) for label, choice in zip("ABCDE", choices, strict=True)]
    assert [extract(text, choices).label for text in texts] == list("ABCDE")
    assert extract("(B) does not fit.", choices).label is None


@pytest.mark.parametrize("answer", ["{}\n\nExplanation: it is so.", "{}.\n\nIt is so.", "**{}**\n\nIt is so."])
def test_a_label_above_its_explanation_is_read_whichever_it_is(answer: str) -> None:
    labels = "ABCDEFGHIJ"
    assert "".join(extract(answer.format(each), PLANETS).label or "-" for each in labels) == labels


def test_a_choice_that_reads_like_a_position_is_meant_by_its_text() -> None:
    choices = ("neither", "the second one", "the first one")
    assert [extract(choice, choices).label for choice in choices] == ["A", "B", "C"]


@pytest.mark.parametrize("hedge", ["maybe {}", "or perhaps {}", "it could be {}, too", "possibly {} because it fits"])
@pytest.mark.parametrize("other", "ABD")
def test_a_hedge_is_seen_whichever_choice_it_names(hedge: str, other: str) -> None:
    candidates = tuple(sorted("C" + other))
    for answer in ("C", "The answer is C"):
        assert extract(f"{answer}. Not sure, {hedge.format(other)}.", CITIES).candidates == candidates


@pytest.mark.parametrize(
    "text",
    [
        "{label}\n{city}",
        "{city}\n{label}",
        "Answer: {label}\n{city}",
        "{city}\n\nAnswer: {label}",
        "The answer is {city}.\n\nAnswer: {label}",
        "{label}) I would say {city}",
        "{label}. I believe it's {city}.",
        "{label}\n\nI think {city} is the capital of France.",
        "({label})\n\nExplanation: {city} is the capital of France.",
    ],
)
def test_a_label_beside_another_choice_is_seen_whichever_they_are(text: str) -> None:
    asked = "What is the capital of France?"
    for label in "ABCD":
        for own, city in zip("ABCD", CITIES, strict=True):
            read = extract(text.format(label=label, city=city), CITIES, asked)
            assert read.label == label if own == label else read.candidates == tuple(sorted(label + own))


@pytest.mark.parametrize(
    "text",
    [
        "{label}. {city} is the most likely place for it. The river there is the Seine.",
        "{label}) {city} (a capital) is the best choice for such a trip.",
        "({label}) {city} is the correct one in view of the river.",
    ],
)
def test_a_choice_that_its_sentence_prefers_is_read_whichever_it_is(text: str) -> None:
    read = [extract(text.format(label=label, city=CITIES["ABCD".index(label)]), CITIES).label for label in "ABCD"]
    assert read == ["A", "B", "C", "D"]


def test_what_a_list_that_was_cut_off_says_of_its_first_choice_is_no_answer() -> None:
    for said in ("is the most populous city of Germany", "is a city", "is the capital of Germany", "would be the best"):
        assert extract(f"A. Berlin {said}", CITIES).label is None
    assert extract("A. Berlin is the best in the north.\nB. Madrid is the best in the west.", CITIES).label is None
