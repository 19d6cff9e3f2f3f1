"""What is read of a sentence that says the question's own words again, completed by one choice."""

from __future__ import annotations

import pytest

from tests.unit.workers.scoring.extract.extracting import CITIES
from workers.scoring.extract import Extraction, extract

YEARS = ("1939", "1941", "1945", "1950")
WAR = "When did the Second World War end?"
CAPITAL = "What is the capital of France?"
READ = Extraction("C", "completed-question")


@pytest.mark.parametrize(
    "text",
    [
        "The Second World War ended in 1945.",
        "the second world war ended in **1945**",
        "The Second World War did end in 1945.",
        "In 1945, the Second World War ended.",
        "It ended in 1945.",
        "The Second World War ended in 1945. Japan surrendered in September.",
        "The Second World War ended in 1945.\nIt had lasted six years.",
    ],
)
def test_a_sentence_of_the_questions_words_that_one_choice_completes_is_an_answer(text: str) -> None:
    assert extract(text, YEARS, WAR) == READ
    assert extract(text, YEARS, WAR, labelled=False) == READ
    assert extract(text, YEARS).label is None, "its words are known only with the question"


@pytest.mark.parametrize(
    "text",
    [
        "The Second World War started in 1939.",
        "The Second World War ended after 1945.",
        "The Second World War nearly ended in 1945.",
        "The Second World War did not end in 1945.",
        "The Second World War ended in 1939 or 1945.",
        "The Second World War ended in 1945, not in 1939.",
        "Tom says the Second World War ended in 1945.",
        "Did the Second World War end in 1945?",
        "When did the Second World War end 1945",
        "If the Second World War ended in 1945",
        "The Second World War ended in 1945. But historians disagree.",
        "The Second World War ended in 1945. I am not sure.",
        "The Second World War ended in 1945. Wait, no.",
        "The Second World War ended in 1945. It began in 1939.",
        "The war of 1945.",
    ],
)
def test_any_other_word_or_doubt_leaves_the_question_unanswered(text: str) -> None:
    assert extract(text, YEARS, WAR).label is None


@pytest.mark.parametrize(
    ("question", "choice", "text", "turned_around"),
    [
        (CAPITAL, "Paris", "Paris is the capital of France.", "France is the capital of Paris."),
        ("Who wrote Hamlet?", "Shakespeare", "Shakespeare wrote Hamlet.", "Hamlet wrote Shakespeare."),
        ("What do bees make?", "Honey", "Bees make honey.", "Honey makes bees."),
        ("Who is the father of Zeus?", "Cronus", "Cronus is the father of Zeus.", "Zeus is a father of Cronus."),
        ("Who founded Rome?", "Romulus", "Rome was founded by Romulus.", "Rome founded Romulus."),
    ],
)
def test_the_choice_stands_where_the_question_asks_for_it(
    question: str, choice: str, text: str, turned_around: str
) -> None:
    choices = ("Oxygen", "Silk", choice)
    assert extract(text, choices, question) == READ
    assert extract(turned_around, choices, question).label is None


@pytest.mark.parametrize(
    "text", ["Berlin is the capital of Germany.", "Berlin is a capital.", "Rome isn't the capital of France."]
)
def test_a_sentence_about_something_else_is_no_answer(text: str) -> None:
    assert extract(text, CITIES, CAPITAL).label is None


@pytest.mark.parametrize(
    "question",
    [
        "Which of these is NOT a noble gas?",
        "Which of these doesn't count as a noble gas?",
        "Which is the least noble gas?",
        "Why is helium a noble gas?",
        "Is helium or neon a noble gas?",
        "Which noble gas is lighter than neon?",
    ],
)
def test_where_the_question_denies_compares_or_asks_something_else_the_sentence_does_not_tell(question: str) -> None:
    assert extract("Helium is a noble gas.", ("Oxygen", "Iron", "Helium"), question).label is None
    assert extract("Helium is a noble gas.", ("Oxygen", "Iron", "Helium"), "Which of these is a noble gas?") == READ


def test_a_sentence_that_says_half_of_what_is_asked_is_no_answer() -> None:
    asked, choices = "Which of these is a scalar quantity measured in kilograms?", ("Force", "Energy", "Mass")
    assert extract("Energy is a scalar quantity.", choices, asked).label is None
    assert extract("Mass is a scalar quantity measured in kilograms.", choices, asked) == READ
    assert extract("Paris lies on the Seine.", CITIES, "Which city lies on the Seine?") == READ, "the city goes unsaid"


@pytest.mark.parametrize("text", ["18 pens", "There are 18 pens in total.", "That is 18 pens."])
def test_a_number_of_what_is_counted_is_an_answer(text: str) -> None:
    asked = "A shop sells 6 boxes of 3 pens. How many pens are that in total?"
    assert extract(text, ("12", "15", "18", "24"), asked).label == "C"
    assert extract(text.replace("pens", "boxes"), ("12", "15", "18", "24"), asked).label is None


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("When did the war begin?", "The war began in 1945."),
        ("When did the Titanic sink?", "The Titanic sank in 1945."),
        ("Which year did they write the report?", "They wrote the report in 1945."),
    ],
)
def test_a_past_form_of_the_questions_verb_is_the_same_word(question: str, text: str) -> None:
    assert extract(text, YEARS, question) == READ


def test_a_label_below_a_sentence_that_names_another_choice_so_is_none() -> None:
    assert extract("Paris is the capital of France.\n\nA", CITIES, CAPITAL) == Extraction(None, "ambiguous", ("A", "C"))
    assert extract("Paris is the capital of France.\n\nC", CITIES, CAPITAL).label == "C"
    assert extract("Berlin is the capital of Germany.\n\nC", CITIES, CAPITAL).label == "C"


def test_of_a_passage_only_the_last_sentence_asks() -> None:
    asked = "Tom went to Paris. Anna went to Rome. Where did Anna go?"
    assert extract("Tom went to Paris.", CITIES, asked).label is None
    assert extract("Anna went to Rome.", CITIES, asked).label == "D"


def test_other_languages_are_read_by_the_questions_own_words() -> None:
    asked = "Wann endete der Zweite Weltkrieg?"
    assert extract("Der Zweite Weltkrieg endete 1945.", YEARS, asked) == READ
    assert extract("Der Zweite Weltkrieg endete nicht 1945.", YEARS, asked).label is None
    assert extract("Der Zweite Weltkrieg endete erst nach 1945.", YEARS, asked).label is None


DIAGNOSIS = "A man of 60 has chest pain. Which of these is the most likely diagnosis?"
DISEASES = ("Pulmonary embolism", "Pericarditis", "Myocardial infarction", "Aortic dissection")


@pytest.mark.parametrize(
    "text",
    [
        "C is the most likely diagnosis.",
        "Option C would be the most likely diagnosis",
        "The ECG shows ST elevation. Therefore, (C) is the most likely diagnosis.",
        "The most likely diagnosis is C.",
        "The most likely diagnosis is: option (C)",
        "C is the most likely diagnosis. The ECG shows ST elevation.",
        "Myocardial infarction is the most likely diagnosis. C is the most likely diagnosis.",
    ],
)
def test_a_label_completes_a_sentence_of_the_questions_words_as_its_choice_does(text: str) -> None:
    assert extract(text, DISEASES, DIAGNOSIS) == READ
    assert extract(text, DISEASES, DIAGNOSIS, labelled=False).label in {None, "C"}


@pytest.mark.parametrize(
    "text",
    [
        "C is not the most likely diagnosis.",
        "C is the least likely diagnosis.",
        "C is a likely diagnosis in children.",
        "Is C the most likely diagnosis?",
        "At first sight C is the most likely diagnosis.",
        "If he smokes, C is the most likely diagnosis.",
        "C is the most likely diagnosis. However, there is no ST elevation.",
        "C is the most likely diagnosis. B would explain the rash.",
        "C is the most likely diagnosis. I am not sure.",
        "C is the most likely diagnosis. B is the most likely diagnosis.",
        "Pericarditis is the most likely diagnosis. C is the most likely diagnosis.",
        "The most likely diagnosis is C. Pericarditis.",
        "The most likely diagnosis is option C: pericarditis",
        "A diagnosis is the most likely.",
        "A is the most likely diagnosis.",
    ],
)
def test_a_label_that_any_other_word_or_choice_is_said_of_is_none(text: str) -> None:
    """In the last one, A may be short for "aortic dissection"."""
    assert extract(text, DISEASES, DIAGNOSIS).label is None


@pytest.mark.parametrize(
    ("text", "choices", "question"),
    [
        (
            "C is the vitamin of citrus fruits.",
            ("Vitamin A", "Vitamin B", "Vitamin D", "Vitamin C"),
            "Which vitamin is of citrus fruits?",
        ),
        ("C is a nonmetal.", ("Sodium", "Iron", "Zinc", "Carbon"), "Which of these is a nonmetal?"),
        ("C is the tallest.", ("The first", "The second", "The third"), "A, B and C are towers. Which is the tallest?"),
    ],
)
def test_a_letter_that_is_a_name_or_a_symbol_in_the_question_is_no_label(
    text: str, choices: tuple[str, ...], question: str
) -> None:
    assert extract(text, choices, question).label is None
