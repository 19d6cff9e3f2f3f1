"""Texts that name two choices without saying which one they mean: hedges, text against label, JSON with two answers."""

from __future__ import annotations

import pytest

from tests.unit.workers.extracting import CITIES, label
from workers.scoring.extract import Extraction, extract

FRANCE = "What is the capital of France?"
BOTH = Extraction(None, "ambiguous", ("A", "C"))


# --- hedges ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "A - not sure, maybe C",
        "A. Maybe C.",
        "A. Not sure, could be C.",
        "A, alternatively C",
        "A; otherwise C",
        "Answer: A (maybe C)",
        "Answer: Berlin. Perhaps Paris.",
        "The answer is A, but maybe C",
        "The answer is A. It lies in Germany. Possibly C) Paris.",
        "The answer is A. Maybe the answer is C.",
        "The answer is A. Perhaps it's C.",
        "Die Antwort ist A, oder vielleicht C",
        "Die Antwort ist A, es könnte aber auch C sein.",
        "La réponse est A, ou peut-être C.",
        "La réponse est A, mais ça pourrait être C.",
        "La respuesta es A, o quizás C",
        "La respuesta es A, aunque podría ser C.",
        "答案是A，也可能是C。",
    ],
)
def test_an_answer_behind_which_another_choice_is_called_possible_is_ambiguous(text: str) -> None:
    assert extract(text, CITIES) == BOTH


@pytest.mark.parametrize(
    "text",
    [
        "C - not sure, maybe because of the river.",
        "C. Maybe you thought of A, which is in Germany.",
        "C. Perhaps A is what others would say.",
        "The answer is C. It could be A, but that is in Germany.",
        "The answer is C. If the question were about Germany, it could be A.",
        "The answer is C. Some think that it could be A.",
        "The answer is C. For Germany, maybe A.",
        "The answer is C. It could not be A.",
        "Maybe A. No, the answer is C.",
        "The answer is C. Perhaps it's C, then.",
        "The answer is C, probably.",
    ],
)
def test_a_choice_that_is_thought_of_and_not_meant_hedges_nothing(text: str) -> None:
    assert label(text) == "C"


def test_what_is_only_possible_is_read_where_it_is_all_that_is_said() -> None:
    assert label("Maybe the answer is C.") == "C"
    assert label("Perhaps it's C.") == "C"


# --- the text of one choice, the label of another -------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "The capital of France is Paris. Therefore {}.",
        "The capital of France is Paris. So the answer is {}.",
        "Paris is the capital of France.\n\nAnswer: {}",
        "It's Paris, so {}.",
        "It is Paris. \\boxed{{{}}}",
        "The answer is {} because the capital of France is Paris.",
        "Answer: {}. The capital of France is Paris.",
        "{}\n\nParis is the capital of France.",
        "**{}**\n\nParis is the capital of France. It lies on the Seine.",
        "The answer is {}, which is Paris.",
        "{}, which is Paris",
    ],
)
def test_a_label_beside_which_another_choice_completes_the_question_is_ambiguous(text: str) -> None:
    assert extract(text.format("A"), CITIES, FRANCE) == BOTH
    assert extract(text.format("C"), CITIES, FRANCE).label == "C"


@pytest.mark.parametrize("written", ["6072", "$6072", "6,072"])
@pytest.mark.parametrize("text", ["The price is {}. The answer is C.", "The price is {}.\n\nC", "It's {}, so C."])
def test_a_label_beside_a_text_that_its_choice_shares_with_another_is_read(text: str, written: str) -> None:
    choices = ("$6072", "$607", "$6,072", "$672")
    assert extract(text.format(written), choices, "What is the price?").label == "C"
    assert extract(text.format("607"), choices, "What is the price?").label is None


@pytest.mark.parametrize(
    "text",
    [
        "The capital of Germany is Berlin. Therefore C.",
        "Berlin is in Germany. So the answer is C.",
        "It is not Berlin, so the answer is C.",
        "It might be Berlin. But the answer is C.",
        "Berlin? No. The answer is C.",
        "Berlin.\n\nActually, no. The answer is C.",
        "It's Berlin. Wait, no, that's Germany. The answer is C.",
        "The answer is C. The capital of Germany is Berlin.",
        "A. Berlin\nB. Madrid\nC. Paris\nD. Rome\n\nAnswer: C",
        "The answer is C. It's not Berlin.",
        "The answer is C, because Berlin is the capital of Germany.",
    ],
)
def test_what_is_said_of_another_choice_beside_a_label_contradicts_nothing(text: str) -> None:
    assert extract(text, CITIES, FRANCE).label == "C"


def test_a_step_of_a_calculation_is_no_answer_beside_a_label() -> None:
    numbers = ("12", "15", "18", "21")
    asked = "How many pieces of fruit are there?"
    for text in ("x = 12. So the answer is C.", "3 * 4 = 12\nSo the answer is C.", "There are 12 apples. Answer: C"):
        assert extract(text, numbers, asked).label == "C"


# --- JSON -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        '{"answer": "A", "final_answer": "C"}',
        '{"answer": "A", "answer": "C"}',
        '{"answer": "A", "option": "Paris"}',
        '{"answer": "A"}\n{"answer": "C"}',
        '{"answer": "A", "reason": "…"}, {"answer": "C", "reason": "…"}',
        '[{"answer": "A"}, {"answer": "C"}]',
        '```json\n{"answer": "A"}\n```\n\n```json\n{"answer": "C"}\n```',
    ],
)
def test_json_that_gives_two_different_answers_is_ambiguous(text: str) -> None:
    assert extract(text, CITIES) == BOTH


@pytest.mark.parametrize(
    "text",
    [
        '{"answer": "C", "final_answer": "C"}',
        '{"answer": "C", "choice": "Paris"}',
        '{"answer": "C) Paris", "label": "C"}',
        '{"answer": "C"}\n{"answer": "C"}',
        '[{"answer": "C"}]',
        '{"option": "A", "is_correct": false}\n{"option": "C", "is_correct": true}',
        '{"answer": "C", "label": "capital"}',
        '{"answer": "A"}\n\nWait, the answer is C.',
    ],
)
def test_json_that_gives_one_answer_twice_is_read(text: str) -> None:
    assert label(text) == "C"
