"""Letters that label a choice, and letters that are something else."""

from __future__ import annotations

import pytest

from tests.unit.workers.scoring.extract.extracting import BLOOD, CITIES, GERMS, PLANETS, label
from workers.scoring.extract import Extraction, extract


@pytest.mark.parametrize("text", ["A cat sat", "A", "The answer is a", "So a cat.", "This is a question."])
def test_an_article_is_not_the_first_choice(text: str) -> None:
    assert label(f"{text} but the answer is C.") == "C"
    assert label(text) == ("A" if text == "A" else None)


@pytest.mark.parametrize("text", ["I think so", "I, for one, doubt it.", "I'd pass", "As I see it, nobody knows."])
def test_a_pronoun_is_not_the_ninth_choice(text: str) -> None:
    assert label(text, PLANETS) is None
    assert label("The answer is I.", PLANETS) == "I"


@pytest.mark.parametrize(
    "text", ["The answer is A. I think I.", "The answer is A. So E, too.", "The answer is A.\n\nE A A"]
)
def test_a_stray_letter_that_no_choice_has_takes_nothing_back(text: str) -> None:
    assert label(text) == "A"
    assert label(text.removeprefix("The answer is A.")) is None


@pytest.mark.parametrize("text", ["Vitamin C", "Hepatitis B", "a grade A", "plan B", "The answer is Vitamin C.", "C++"])
def test_a_letter_that_belongs_to_a_noun_is_no_label(text: str) -> None:
    assert label(text) is None


@pytest.mark.parametrize(("text", "expected"), [("The answer is E. coli.", "B"), ("C. difficile", "D"), ("(E)", "E")])
def test_an_abbreviated_name_is_a_choice_and_no_label(text: str, expected: str) -> None:
    assert label(text, GERMS) == expected


def test_where_choices_are_letters_only_a_sign_tells_label_from_text() -> None:
    assert extract("The answer is B.", BLOOD) == Extraction(None, "ambiguous", ("B", "C"))
    assert label("The answer is (B).", BLOOD) == "B"
    assert label("B) A", BLOOD) == "B"
    assert label("The answer is AB.", BLOOD) == "D"


@pytest.mark.parametrize("text", ["The answer is (A).", "(A)", "It is in France.\n\n(A)", "**(a)**", "Answer: (a)"])
def test_a_letter_in_brackets_that_is_a_label_and_another_choice_is_ambiguous(text: str) -> None:
    letters = ("(b)", "(a)", "(c)", "neither")
    assert extract(text, letters) == Extraction(None, "ambiguous", ("A", "B"))
    assert label(text.replace("a)", "c)").replace("A)", "C)"), letters) == "C"
    assert label(text.replace("a)", "d)").replace("A)", "D)"), letters) == "D"
    assert label("So the answer is option (A).", letters) == "A"


@pytest.mark.parametrize("text", ["{}-{}", "Answer: {}-{}", "The answer is {}-{}.", "**{}-{}**", "({})-{}"])
def test_a_label_joined_to_its_own_text_by_a_hyphen_is_read_and_to_another_is_none(text: str) -> None:
    assert label(text.format("C", "Paris")) == "C"
    assert label(text.format("B", "Paris")) is None
    assert label(text.format("C", "-5"), ("-7", "5", "-5")) == "C"


@pytest.mark.parametrize("between", [" or ", " and ", ", ", " & ", ", or possibly "])
def test_two_labels_each_joined_to_its_text_by_a_hyphen_are_ambiguous(between: str) -> None:
    assert extract(f"The answer is A-Berlin{between}C-Paris", CITIES) == Extraction(None, "ambiguous", ("A", "C"))


def test_a_label_that_is_equated_with_another_choice_names_neither() -> None:
    numbers = ("12", "15", "18", "20")
    assert extract("The answer is B = 18", numbers) == Extraction(None, "ambiguous", ("B", "C"))
    assert label("The answer is C = 18", numbers) == "C"
    assert label("The answer is x = 18", numbers) == "C"


@pytest.mark.parametrize(
    "mark", ["The answer is ({}) {}.", "{}) {}", "**{}. {}**", "Answer: {}: {}", "The answer is {} ({})."]
)
@pytest.mark.parametrize("numbers", [("17", "-1", "-17", "1"), ("(2, 3)", "2, 3", "(-2, 3)", "-2")])
def test_a_label_before_its_own_number_is_read_whatever_its_sign(numbers: tuple[str, ...], mark: str) -> None:
    texts = [mark.format(each, number) for each, number in zip("ABCD", numbers, strict=True)]
    assert [label(text, numbers) for text in texts] == ["A", "B", "C", "D"]
    assert extract("The answer is (C) 17.", ("17", "-1", "-17")).candidates == ("A", "C")


@pytest.mark.parametrize(
    "text",
    [
        "The magnetic field **B** has a magnitude of 3 T.",
        "Since **A** is orthogonal, its determinant is 1.",
        "Lack of vitamin **C** causes scurvy.",
        "Point **D** on the graph shows the price.",
        "The current is 5 amperes (A).",
        "Guanine pairs with cytosine (C).",
        "That quantity is capacitance (C).",
        "Therefore, A is correct and R is false.",
    ],
)
def test_a_letter_that_names_a_thing_is_no_label(text: str) -> None:
    assert label(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "It can only be the **C**.",
        "Therefore, **C**",
        "Give Paris (C).",
        "It is the city of Paris (C).",
    ],
)
def test_a_label_in_bold_or_brackets_is_read_where_it_is_one(text: str) -> None:
    assert label(text) == "C"


@pytest.mark.parametrize(
    "text",
    [
        "Die Hauptstadt ist **C**.",
        "La capitale est **C**.",
        "Donc **C**.",
        "所以**C**。",
        "Поэтому **C**.",
        "This gives **C**.",
        "That points to **C**.",
        "Paris is the capital, making it **C**.",
        "Somit (C).",
        "因此(C)",
        "Hence Paris in France (C).",
    ],
)
def test_a_label_in_bold_or_brackets_is_read_behind_words_of_any_language_that_state_it(text: str) -> None:
    assert label(text) == "C"


@pytest.mark.parametrize(
    "text", ["This gives **B** in tesla.", "Patients with hepatitis **B**.", "With **A** we get 5."]
)
def test_a_bold_letter_that_a_sentence_goes_on_from_is_no_label(text: str) -> None:
    assert label(text) is None


@pytest.mark.parametrize(
    "text", ["It's B.", "I believe the answer is B.", "B is the correct answer.", "B, because it is."]
)
def test_a_letter_that_is_a_label_and_another_choice_is_ambiguous(text: str) -> None:
    assert extract(text, BLOOD) == Extraction(None, "ambiguous", ("B", "C"))
    assert label(text.replace("B", "D"), BLOOD) == "D"


@pytest.mark.parametrize("text", ["Option B", "So the answer is option B.", "The answer is O, which is option A."])
def test_a_letter_that_is_called_an_option_is_a_label(text: str) -> None:
    assert label(text, BLOOD) == ("A" if "O," in text else "B")
    assert label("A (option B)", BLOOD) is None


@pytest.mark.parametrize(
    "text", ["Somit ist **A** falsch.", "Поэтому **A** неверно.", "Donc **A** est faux.", "故**A**错误。"]
)
def test_a_bold_label_of_which_more_is_said_in_another_language_is_no_answer(text: str) -> None:
    assert label(text) is None
