"""Texts that name two choices without saying which one they mean: hedges, text against label, JSON with two answers."""

from __future__ import annotations

import pytest

from tests.unit.workers.scoring.extract.extracting import CITIES, label
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


@pytest.mark.parametrize(
    "text",
    [
        "{}\nParis",
        "Answer: {}\nParis",
        "Answer: {}\n\n**Paris.**",
        "**Answer: {}**\n(Paris)",
        "{} is the correct answer.\nParis",
        "Answer: {}\n- Paris\n\nExplanation: It lies on the Seine.",
        "{}\nParis\nBecause it lies on the Seine.",
        "Paris\nAnswer: {}",
        '"Paris"\n\nThe answer is ({}).',
        "We look at the map.\n\n**Paris**\n\nSo the answer is {}.",
        "> Paris\n\n\\boxed{{{}}}",
        "Paris\nLa réponse est {}.",
    ],
)
def test_a_label_above_or_below_a_line_that_is_another_choice_is_ambiguous(text: str) -> None:
    assert extract(text.format("A"), CITIES) == BOTH
    assert extract(text.format("C"), CITIES).label == "C"


@pytest.mark.parametrize(
    "text",
    [
        "Berlin?\nAnswer: C",
        "Berlin\n\nNo, wait.\n\nAnswer: C",
        "Berlin is in Germany.\nAnswer: C",
        "These are wrong:\nBerlin\n\nAnswer: C",
        "Berlin\nMadrid\nParis\nRome\n\nAnswer: C",
        "Berlin\nMadrid\n\nAnswer: C",
        "Answer: C\n\nBerlin:\nit lies in Germany.",
        "Answer: C\n\n## Berlin\n\nIt lies in Germany.",
        "Answer: C\n\nBerlin\nThat one lies in Germany.",
        "Answer: C, which I found on a map.\nBerlin",
    ],
)
def test_a_line_that_is_another_choice_and_answers_nothing_contradicts_no_label(text: str) -> None:
    assert label(text) == "C"


@pytest.mark.parametrize(
    "correction",
    [
        "Actually, the answer is C.",
        "The answer is actually C.",
        "Sorry, the answer is C.",
        "Correction: C",
        "I mean C",
        "No, C.",
        "But the answer is C.",
        "Revised answer: C",
        "A better answer is C.",
        "Non, la réponse est C.",
    ],
)
def test_an_answer_that_corrects_the_line_above_is_read(correction: str) -> None:
    assert label(f"Berlin\n{correction}") == "C"


@pytest.mark.parametrize(
    "text",
    [
        "The answer is Paris.\n\nAnswer: {}",
        "Answer: Paris\nAnswer: {}",
        "It has the Seine, so the overall answer is **Paris**.\n\nThe answer is ({}).",
        "Antwort: Paris.\nAntwort: {}",
        "Final answer: Paris\n\\boxed{{{}}}",
    ],
)
def test_a_label_below_a_line_that_announces_another_choice_is_ambiguous(text: str) -> None:
    assert extract(text.format("A"), CITIES) == BOTH
    assert label(text.format("C")) == "C"


@pytest.mark.parametrize(
    "text",
    [
        "The answer is Berlin.\n\nActually, the answer is C.",
        "The answer is Berlin.\n\nNo, wait.\n\nAnswer: C",
        "The answer is Berlin.\n\nWe look again: that is in Germany.\n\nAnswer: C",
        "The answer is not Berlin.\nAnswer: C",
        "For Germany, the answer would be Berlin, a city in the east.\nAnswer: C",
    ],
)
def test_an_announced_choice_that_the_next_line_does_not_contradict_is_no_answer_beside_its_label(text: str) -> None:
    assert label(text) == "C"


def test_a_letter_of_no_choice_below_an_announced_one_is_no_such_choice() -> None:
    assert extract("The answer is Paris.\n\nThe answer is (X).", CITIES).rule == "no-such-choice"


@pytest.mark.parametrize("text", ["{}\nAnswer: C", "Answer: C\n{}"])
def test_a_line_that_is_a_letter_is_not_taken_for_the_choice_that_reads_so(text: str) -> None:
    blood = ("O", "A", "B", "AB")
    assert extract(text.format("B"), blood).label == "C"
    assert extract(text.format("AB"), blood).candidates == ("C", "D")


def test_a_line_that_is_a_verdict_contradicts_a_label_but_not_where_it_may_judge_it() -> None:
    assert label("Answer: A\nCorrect.", ("Incorrect", "Correct")) == "A"
    assert label("Wrong.\nAnswer: A", ("right", "wrong")) == "A"
    assert extract("No.\n\nAnswer: A", ("Yes", "No")).rule == "ambiguous"
    assert extract("Answer: A\nFalse", ("True", "False")).rule == "ambiguous"


@pytest.mark.parametrize("heading", ["Explanation:", "**Reasoning:**", "Rationale:\n", "### Explanation\n", "Because:"])
@pytest.mark.parametrize("text", ["{}\n\n{} {}", "Answer: ({})\n{} {}", "The answer is {}.\n\n{}\n{}"])
def test_a_headed_explanation_with_another_choice_contradicts_the_label_above_it(text: str, heading: str) -> None:
    said = "Paris is the capital of France."
    assert extract(text.format("A", heading, said), CITIES, FRANCE) == BOTH
    assert extract(text.format("C", heading, said), CITIES, FRANCE).label == "C"
    for other in (
        "Berlin is the capital of Germany.",
        "Berlin is not the capital of France.",
        "Berlin is in the east.",
    ):
        assert extract(text.format("C", heading, other), CITIES, FRANCE).label == "C"


@pytest.mark.parametrize(
    "text",
    [
        "{}) I would say Paris",
        "{}. I'd say Paris.",
        "{}. I think Paris.",
        "{}. I believe it's Paris",
        "{}. I believe that Paris is the capital of France.",
        "{}\n\nI think it's Paris.",
        "Answer: {}. I guess Paris is the capital of France.",
    ],
)
def test_a_label_beside_an_opinion_for_another_choice_is_ambiguous(text: str) -> None:
    assert extract(text.format("A"), CITIES, FRANCE) == BOTH
    assert extract(text.format("C"), CITIES, FRANCE).label == "C"


@pytest.mark.parametrize(
    "text",
    [
        "A: I would say Paris",  # after "Q: …"
        "a) I would say Paris",
        "C) I would say Berlin is too far east.",
        "C. I think Berlin is the capital of Germany.",
        "C. I believe it's not Berlin.",
    ],
)
def test_an_opinion_that_is_none_for_another_choice_contradicts_no_label(text: str) -> None:
    assert extract(text, CITIES, FRANCE).label == "C"


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
        '{"answer_letter": "A", "answer_text": "Paris"}',
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
        '{"thoughts": "The answer is A.", "answerLetter": "C"}',
        '{"thoughts": "The answer is A.", "selected_letter": "C", "selected_option_text": "Paris"}',
        '{"correctAnswer": "C"}',
        '{"answer_key": "C"}',
    ],
)
def test_json_that_gives_one_answer_twice_is_read(text: str) -> None:
    assert label(text) == "C"


@pytest.mark.parametrize(
    "text",
    [
        "B. Paris is correct.",
        "B) Paris because it is the capital.",
        "B) Paris, because it is.",
        "B. Paris - the capital",
        "The answer is **B) Paris**, because it is.",
        "The answer is B: Paris, as it is the capital.",
        "The answer is option B, 'Paris'.",
    ],
)
def test_a_label_with_the_text_of_another_choice_and_a_reason_is_ambiguous(text: str) -> None:
    assert extract(text, CITIES) == Extraction(None, "ambiguous", ("B", "C"))
    assert label(text.replace("Paris", "Madrid")) == "B"


def test_json_without_an_answer_is_none_whatever_its_reasoning_says() -> None:
    assert extract('{"reasoning": "So the answer is A.", "answer": null}', CITIES) == Extraction(None, "none")
