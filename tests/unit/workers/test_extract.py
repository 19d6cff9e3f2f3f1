"""Which choice a written answer names. The table in tests/data/extraction.tsv says what a careful reader reads."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support import ROOT
from workers.scoring.extract import Extraction, extract
from workers.scoring.extract.cues import CUES, Cue
from workers.scoring.extract.rules import EXPLICIT, IMPLICIT

CITIES = ("Berlin", "Madrid", "Paris", "Rome")
PLANETS = ("Mercury", "Venus", "Earth", "Mars", "Jupiter", "Saturn", "Uranus", "Neptune", "Pluto", "Ceres")
GERMS = ("S. aureus", "E. coli", "K. pneumoniae", "C. difficile", "S. enterica")
BLOOD = ("O", "A", "B", "AB")


class Row(NamedTuple):
    """One labelled output of the table."""

    text: str
    choices: list[str]
    expected: str | None
    failure_class: str


def _row(line: str) -> Row:
    text, choices, expected, failure_class = line.split("\t")
    unescaped = re.sub(r"\\(.)", lambda found: {"n": "\n", "t": "\t", "\\": "\\"}[found[1]], text)
    return Row(unescaped, json.loads(choices), expected or None, failure_class)


TABLE = [
    _row(line) for line in (ROOT / "tests/data/extraction.tsv").read_text(encoding="utf-8").rstrip("\n").split("\n")[1:]
]
CLASSES = sorted({row.failure_class for row in TABLE})


def label(text: str, choices: tuple[str, ...] = CITIES) -> str | None:
    return extract(text, choices).label


# --- the table ------------------------------------------------------------------------------------------------------


def test_the_table_is_large_enough_to_mean_something() -> None:
    chains = [row for row in TABLE if row.failure_class == "chain-of-thought"]
    assert len(TABLE) >= 250
    assert sum(row.expected is None for row in TABLE) >= 60
    assert sum(row.text.count("\n") >= 2 for row in chains) >= 40
    assert Counter((row.text, *row.choices) for row in TABLE).most_common(1)[0][1] == 1, "a row stands there twice"


@pytest.mark.parametrize("failure_class", CLASSES)
def test_no_output_of_this_class_is_read_as_a_choice_that_it_does_not_name(failure_class: str) -> None:
    """A wrong label is worse than none: there may not be one."""
    read = [(row, extract(row.text, row.choices)) for row in TABLE if row.failure_class == failure_class]
    wrong = [f"{row.text!r}: {found}" for row, found in read if found.label not in {None, row.expected}]
    assert not wrong, "\n".join(wrong)


def test_of_all_outputs_at_least_99_in_100_are_read_right() -> None:
    missed = [row for row in TABLE if label(row.text, tuple(row.choices)) != row.expected]
    print("\n".join(f"{row.failure_class}: {row.text!r} is {row.expected}" for row in missed))  # noqa: T201
    assert len(missed) <= len(TABLE) / 100


# --- one sentence per class -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        (r"We get \boxed{\text{C}}", "boxed"),
        ("<answer>(C) Paris</answer>", "answer-tag"),
        ("So the correct answer is (C).", "answer-statement"),
        ("(C) is correct.", "judged-label"),
        ("The city on the Seine is (C) Paris.", "stated-choice"),
        ("The city on the Seine, in short **C**", "bold-label"),
        ("C) Paris, on the Seine", "leading-label"),
        ("France is meant.\n\n(C)", "lone-label"),
        ("The city meant here must lie in France, as the Seine does (option C).", "lone-label"),
        ("Option 3", "number"),
        ("❌ A) Berlin\n❌ B) Madrid\n✅ C) Paris\n❌ D) Rome", "checked-choice"),
        ("Paris.", "option-text"),
    ],
)
def test_each_rule_reads_its_example_and_says_its_name(text: str, rule: str) -> None:
    assert extract(text, CITIES) == Extraction("C", rule)
    assert rule in {each.name for each in (*EXPLICIT, *IMPLICIT)}


@pytest.mark.parametrize("cue", CUES, ids=lambda cue: cue.example.splitlines()[0])
def test_each_cue_announces_its_example(cue: Cue) -> None:
    assert cue.pattern.search(cue.example.lower())
    assert extract(cue.example, CITIES) == Extraction("C", "answer-statement")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", Extraction(None, "none")),
        ("I cannot answer this.", Extraction(None, "none")),
        ("The answer is A or B.", Extraction(None, "ambiguous", ("A", "B"))),
        ("A. Paris", Extraction(None, "ambiguous", ("A", "C"))),
        ("The answer is C. For Italy, the best choice is Rome.", Extraction(None, "ambiguous", ("C", "D"))),
        ("The answer is A. Wait, that's wrong.", Extraction(None, "retracted", ("A",))),
        ("The answer is E.", Extraction(None, "no-such-choice")),
        ("<think>The answer is C.", Extraction(None, "unfinished-reasoning")),
    ],
)
def test_without_a_choice_the_rule_says_why(text: str, expected: Extraction) -> None:
    assert extract(text, CITIES) == expected


@pytest.mark.parametrize(
    "text",
    [
        "The answer is A. Wait, no, the answer is C.",
        r"\boxed{A} is wrong after all. The answer is C.",
        "I'd choose B. Hmm, let me reconsider. I'd choose C.",
        "Answer: A\nCorrection: C.",
        "The answer is Berlin. No, the answer is Paris.",
    ],
)
def test_the_last_statement_wins(text: str) -> None:
    assert label(text) == "C"


@pytest.mark.parametrize(
    "taken_back",
    [
        "... not.",
        ". Not.",
        " - NOT!",
        " (not).",
        " (just kidding, B).",
        ". It is in Germany. Just kidding.",
        ". Haha, only joking!",
        ". That was a joke.",
        ". I take that back.",
        ". Strike that, B.",
        ". Oh, never mind.",
        ". Please ignore my previous answer.",
        ". I have changed my mind.",
        ". Actually, no.",
        ". No, it isn't.",
        ". Nope.",
        ". Or maybe not.",
        ". My bad, B.",
        "... er, B.",
    ],
)
@pytest.mark.parametrize("said", ["The answer is A", "The answer is Berlin", "It's A"])
def test_an_answer_that_is_taken_back_in_passing_is_none(said: str, taken_back: str) -> None:
    assert label(f"{said}.") == "A"
    assert extract(said + taken_back, CITIES) == Extraction(None, "retracted", ("A",))


@pytest.mark.parametrize(
    "corrected",
    [
        ". Just kidding, it's C.",
        ". It is in Germany. Just kidding, it's C.",
        ". I'm joking, it is C.",
        ". I take it back, it's C.",
        ". Make that C.",
        ", nope, C.",
    ],
)
def test_an_answer_behind_one_that_was_taken_back_in_passing_is_read(corrected: str) -> None:
    assert label(f"The answer is A{corrected}") == "C"


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("Die Antwort ist A. Ach nein, C.", "C"),
        ("Die Antwort ist A. Moment, nein: C.", "C"),
        ("Die Antwort ist A. Korrektur: C.", "C"),
        ("La réponse est A. Ah non, C.", "C"),
        ("Odpowiedź: A. Nie, C.", "C"),
        ("Ответ: A. Нет, C.", "C"),
        ("A is my answer. Update: C.", "C"),
        ("Die Antwort ist A. Quatsch, es ist C.", None),
        ("La réponse est A. Pardon, C.", None),
        ("La respuesta es A. Perdón, es C.", None),
        ("La risposta è A. Anzi, C.", None),
        ("A resposta é A. Aliás, C.", None),
        ("The answer is A. (Should be C.)", None),
        ("The answer is A. It should have been C.", None),
        ("The answer is A. C, actually.", None),
        ("The answer is A. Well, C.", None),
        ("The answer is A. Or C.", None),
        ("The answer is A... or C?", None),
        ("The answer is A. Still, C is better.", None),
        ("The answer is A. Is it?", None),
        ("Saying that A is the answer would be a mistake.", None),
    ],
)
def test_an_answer_that_the_next_words_correct_is_not_read(text: str, read: str | None) -> None:
    assert label(text) == read


@pytest.mark.parametrize(
    "behind",
    [
        "Not A, as it is in Germany.",
        "Not so hard!",
        "No kidding.",
        "Kidding aside, it lies on the Seine.",
        "I'm not joking.",
        "Still, Lyon is larger than many think.",
        "Well, it lies on the Seine.",
        "It should be known to all.",
        "Do not forget that it lies on the Seine.",
        "Many change their mind.",
        "We may ignore that Lyon is large, too.",
    ],
)
def test_words_that_only_sound_like_taking_back_take_nothing_back(behind: str) -> None:
    assert label(f"The answer is C. {behind}") == "C"


def test_an_answer_or_rather_another_is_ambiguous() -> None:
    assert extract("The answer is A, or rather C.", CITIES) == Extraction(None, "ambiguous", ("A", "C"))


@pytest.mark.parametrize(
    "text",
    ["<think>A? The answer is B.</think>{}", "A? B?</think>{}", "<reasoning>A</reasoning>{}", "[THINK]A[/THINK]{}"],
)
def test_reasoning_is_not_an_answer(text: str) -> None:
    assert label(text.format("The answer is C.")) == "C"
    assert label(text.format("")) is None


def test_of_channels_only_the_final_one_is_read() -> None:
    analysis = "<|channel|>analysis<|message|>The answer is A.<|end|>"
    assert label(f"{analysis}<|start|>assistant<|channel|>final<|message|>The answer is C.<|return|>") == "C"
    assert extract(analysis, CITIES).rule == "unfinished-reasoning"


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


@pytest.mark.parametrize(
    "text", ["A and B are wrong.", "Both A and C are correct.", "A, B", "The answers are A and D."]
)
def test_a_statement_about_several_choices_names_none(text: str) -> None:
    assert label(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "C is the correct answer. A is also the correct answer.",
        "A is the correct answer. C is the correct answer, too.",
        "The answer is A. The answer is also C.",
        "The answer is A. C is correct as well.",
        "Answer: (A) (C)",
    ],
)
def test_several_choices_that_are_all_called_right_are_ambiguous_whichever_comes_last(text: str) -> None:
    assert extract(text, CITIES) == Extraction(None, "ambiguous", ("A", "C"))


@pytest.mark.parametrize(
    "text",
    [
        "The answer is A. This contradicts what I found; C is right.",
        "Answer: A\n\nOn the map, Paris lies in France. So it seems that C is correct.",
    ],
)
def test_an_answer_behind_which_another_choice_is_called_right_is_ambiguous(text: str) -> None:
    assert extract(text, CITIES) == Extraction(None, "ambiguous", ("A", "C"))


@pytest.mark.parametrize(
    "behind",
    [
        "A is also correct, but less precise.",
        "A is right above B.",
        "For Germany, A is correct.",
        "If it were about Germany, A is correct.",
        "Some say that A is correct, which is wrong.",
    ],
)
def test_a_choice_that_is_right_beside_the_answer_or_elsewhere_contradicts_nothing(behind: str) -> None:
    assert label(f"The answer is C. {behind}") == "C"


def test_others_may_be_right_beside_all_of_the_above_or_the_exception() -> None:
    above = ("It is red", "It is hot", "It is far", "All of the above")
    assert label("The answer is D. A is also correct.", above) == "D"
    assert label("The answer is D. A is correct. B is also correct.", above) == "D"
    asked = "Which of these is NOT a correct name?"
    assert extract("The answer is C. A is also correct.", CITIES, asked).label == "C"


def test_a_label_that_is_equated_with_another_choice_names_neither() -> None:
    numbers = ("12", "15", "18", "20")
    assert extract("The answer is B = 18", numbers) == Extraction(None, "ambiguous", ("B", "C"))
    assert label("The answer is C = 18", numbers) == "C"
    assert label("The answer is x = 18", numbers) == "C"


@pytest.mark.parametrize("unit", ["", " cm", "%", "π"])
@pytest.mark.parametrize(
    "calculated",
    [
        "{0} + {1} = {2}",
        "{0} - {1} = {2}",
        "{0} : {1} = {2}",
        "{0}! = {2}",
        "{0} = {1} = {2}",
        "{0} + {1}\n= {2}",
        "{0}\n= {1}\n= {2}",
    ],
)
@pytest.mark.parametrize("lead", ["x = ", "The answer is ", "So x = ", "Answer: ", "It's ", "The total is ", ""])
def test_a_number_on_the_way_to_the_result_of_a_calculation_is_no_answer(lead: str, calculated: str, unit: str) -> None:
    first, second, result, other = numbers = tuple(f"{number}{unit}" for number in (12, 6, 18, 24))
    text = lead + calculated.format(first, second, result)
    assert label(text, numbers) in {"C", None}
    assert label(text, (first, second, other)) is None


@pytest.mark.parametrize(
    "text", ["x = 6 + 12 = 18", "So x = 6 + 12 = 18.", "The answer is x = 12 - 6 + 12 = 18.", "18"]
)
def test_the_result_of_a_calculation_is_read(text: str) -> None:
    assert label(text, ("6", "12", "18", "24")) == "C"
    assert label(text, ("6", "12", "15", "24")) is None


@pytest.mark.parametrize("text", ["The answer is B.", "B", "(B)", "B is correct.", "Option 2", "The second option."])
def test_where_no_labels_were_shown_neither_letter_nor_position_names_a_choice(text: str) -> None:
    assert extract(text, CITIES).label == "B"
    assert extract(text, CITIES, labelled=False) == Extraction(None, "none")


def test_where_no_labels_were_shown_texts_name_a_choice() -> None:
    assert extract("The answer is B.", BLOOD, labelled=False).label == "C"
    assert extract("The answer is Paris.", CITIES, labelled=False).label == "C"
    assert extract("Answer: Paris, or Rome.", CITIES, labelled=False) == Extraction(None, "ambiguous", ("C", "D"))


def test_a_choice_inside_a_longer_choice_is_not_meant() -> None:
    assert label("The answer is New York.", ("York", "New York")) == "B"
    assert label("The answer is York.", ("York", "New York")) == "A"
    assert label("York or New York", ("York", "New York")) is None


def test_a_number_is_a_position_only_where_no_choice_is_a_number() -> None:
    assert label("The answer is 2.") == "B"
    assert label("The answer is 2.", ("3", "5", "7", "2")) == "D"
    assert label("The answer is 2.", ("Two", "Three", "Four")) is None


@pytest.mark.parametrize(
    "text", ["C\n\nQuestion: Next?\nAnswer: A", "C<|im_end|>B", "C\nUser: And now?\nThe answer is A."]
)
def test_what_the_model_makes_up_after_its_answer_is_not_read(text: str) -> None:
    assert label(text) == "C"


@pytest.mark.parametrize(
    "mistake",
    [
        "A common misconception is that the answer is A.",
        "A widespread misunderstanding is that A is the correct answer.",
        "The most common error is thinking that the answer is A.",
        "It is a myth that the answer is A.",
        "It would be a fallacy to conclude that the answer is A.",
        "Many fall into the trap of believing that the answer is A.",
        "Careless readers will conclude that the answer is A.",
        "Beware of thinking that the answer is A.",
        "Be careful: it is easy to think the answer is A.",
        "Une erreur fréquente est de croire que la réponse est A.",
        "Un error común es pensar que la respuesta es A.",
        "कुछ लोग सोचते हैं कि उत्तर A है।",
    ],
)
def test_an_answer_that_is_called_a_mistake_is_none(mistake: str) -> None:
    assert label(mistake) is None
    assert label(f"The correct answer is C. {mistake}") == "C"


@pytest.mark.parametrize(
    "text",
    [
        "This is a common misconception. The answer is C.",
        "The standard error is small, so the answer is C.",
        "There is no error in this: the answer is C.",
        "Beware of the units. The answer is C.",
        "It is a trap question, but the answer is C.",
    ],
)
def test_a_mistake_that_is_another_sentence_or_clause_denies_no_answer(text: str) -> None:
    assert label(text) == "C"


@pytest.mark.parametrize(
    "text",
    [
        "A is hardly the correct answer.",
        "A is rarely the best choice.",
        "A is almost the right answer.",
        "A seems right, but it is not.",
        "Answer: A -> B",
        "The answer is A --> B.",
        "Berlin is in Germany. So A is out. B is Madrid. So B",
        "It might be Paris.",
        "The capital could be Paris.",
        "Option A is about Germany. Therefore, B",
    ],
)
def test_what_is_nearly_an_answer_or_cut_off_before_it_is_one_is_none(text: str) -> None:
    assert label(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "C is clearly the right answer.",
        "It must be Paris.",
        "A) Berlin: incorrect!\nB) Madrid: incorrect!\nC) Paris: correct!\nD) Rome: incorrect!",
        "Answer: C -> Paris",
        "Answer: C --> Paris",
        "Berlin is in Germany. So A is out. So C.",
        "It is in France.\n\nSo C",
        "So C",
        "It is in France. So the answer is C",
    ],
)
def test_near_neighbours_of_those_are_answers(text: str) -> None:
    assert label(text) == "C"


@pytest.mark.parametrize(
    "others",
    [
        "Most people would answer B.",
        "Most people answer B.",
        "People often answer: B.",
        "Some might answer (B).",
        "My friend would answer B.",
        "Naively, one would answer B.",
        "The old answer was B.",
    ],
)
def test_what_others_would_answer_is_not_the_own_answer(others: str) -> None:
    assert label(others) is None
    assert label(f"{others}\n\nC") == "C"
    assert label(f"I would answer C. {others}") == "C"


@pytest.mark.parametrize(
    "text",
    [
        "The most likely answer is C.",
        "One answer is C.",
        "I, unlike most people, would answer: C.",
        "As most people know, the answer is C.",
        "Most of the evidence points to the answer C.",
    ],
)
def test_the_own_answer_may_speak_of_most_and_people(text: str) -> None:
    assert label(text) == "C"


@pytest.mark.parametrize(
    "text",
    ["Final: C", "In short: C", "TL;DR: C", "Selected: C", "Best guess: C", "My guess: Paris", "选项C是正确的。"],
)
def test_short_announcements_are_read(text: str) -> None:
    assert label(text) == "C"
    assert label(f"Let me see.\n{text}") == "C"


def test_the_answer_to_a_similar_question_is_not_the_own_one() -> None:
    assert label("The answer to a similar question is B.") is None
    assert label("The answer to the question is C. The answer to a related question is B.") == "C"


@pytest.mark.parametrize(
    "example",
    [
        "Similar question: What is the capital of Spain? Answer: B",
        "Here is a similar question: what is the capital of Spain? It lies in Iberia, so the answer is B.",
        "Related problem. What is the capital of Spain? The correct answer is Madrid.",
        "Example: What is the capital of Spain? Answer: B",
        "Example 1: What is the capital of Spain?\nAnswer: (B)",
        "Similar question:\nWhat is the capital of Spain?\nA) Berlin\nB) Madrid\nC) Paris\nD) Rome\nAnswer: B",
    ],
)
def test_the_answer_to_an_example_is_not_the_own_answer(example: str) -> None:
    asked = "What is the capital of France?"
    assert extract(example, CITIES, asked) == Extraction(None, "none")
    assert extract(f"{example}\n\nParis", CITIES, asked).label == "C"
    assert extract(f"{example}\nNow our question: the answer is C.", CITIES, asked).label == "C"
    assert extract(f"The answer is C.\n\n{example}", CITIES, asked).label == "C"


@pytest.mark.parametrize(
    "text",
    [
        "This is similar to another one. Which city lies on the Seine? The answer is C.",
        "A similar question is often asked. What is the capital of France? The answer is C.",
        "For example, where does the Seine flow? So the answer is C.",
        "Is it Rome, for example? No. The answer is C.",
        "Similar question: what is the capital of Spain? Madrid. Likewise, the answer is C.",
    ],
)
def test_a_question_that_is_no_example_leaves_the_answer_behind_it(text: str) -> None:
    assert label(text) == "C"


@pytest.mark.parametrize(
    "another",
    [
        "Using the old definition, the answer is A.",
        "Per the older guidelines, the answer is A.",
        "According to the outdated textbook, the answer is A.",
        "With a different map, it is A.",
    ],
)
def test_an_answer_by_another_definition_has_not_the_last_word(another: str) -> None:
    assert label(another) == "A", "it is all that is said"
    assert label(f"{another} Using the current one, the answer is C.") == "C"
    assert extract(f"Using the current map, the answer is C. {another}", CITIES) == Extraction(
        None, "ambiguous", ("A", "C")
    )
    assert label("The answer is A. Wait, no. In other words, the answer is C.") == "C"


@pytest.mark.parametrize(
    "explanation",
    [
        "So A (the acid) donates a proton to B (the base).",
        "So A, being heavier, sinks.",
        "Therefore A - the acid - donates a proton.",
        "Thus B, not A, is the limiting reagent.",
        "So B, as the slower car, never catches up.",
        "So A is right of B.",
        "In the picture, A is right above B.",
        "We choose A as the pivot.",
        "1. Choose A as the starting point.",
    ],
)
def test_a_letter_that_an_explanation_speaks_of_is_no_answer(explanation: str) -> None:
    assert label(explanation) is None
    assert label(f"The answer is C. {explanation}") == "C"
    assert label(f"**C**\n\n{explanation}") == "C"


@pytest.mark.parametrize(
    "steps",
    [
        "1. We pick A. 2. We then compare it with the pivot.",
        "1. Pick A.\n2. Compare it with B.",
        "1) Let's select A.\n2) Move on.",
        "Step 1: We choose A. Step 2: We compare it with B.",
    ],
)
def test_what_a_numbered_step_picks_is_no_answer(steps: str) -> None:
    assert label(steps) is None
    assert label(f"{steps}\n\nThe answer is C.") == "C"
    assert label(f"The answer is C.\n\n{steps}") == "C"


@pytest.mark.parametrize(
    "text",
    ["1. I choose C.\n2. It is in France.", "1. The answer is C.\n2. It is in France.", "1. Look.\n2. We pick C."],
)
def test_a_numbered_answer_or_the_last_step_is_read(text: str) -> None:
    assert label(text) == "C"


@pytest.mark.parametrize(
    "explanation",
    [
        "Of the two alleles, A is the dominant one.",
        "In the diagram, A is the faster one.",
        "So A is right.",
        "Thus A.",
        "It's A.",
        "This makes A the heavier body.",
        "We choose A as the left neighbour.",
        "Popular opinion holds that the answer is A.",
        "Back then, the answer was A.",
        "I would choose A, if friction mattered.",
    ],
)
@pytest.mark.parametrize("announced", ["The answer is C.", "**Answer: C**\n\nExplanation:", "C\n\n", r"\boxed{C}"])
def test_what_may_only_explain_the_answer_does_not_displace_it(announced: str, explanation: str) -> None:
    found = extract(f"{announced} {explanation}", CITIES)
    assert found.label in {None, "C"}
    assert label(f"The answer is A. {explanation}") == "A"


@pytest.mark.parametrize(
    "text",
    [
        "So C (Paris) is correct.",
        "So C (not A) is correct.",
        "Thus C, not A, is the right answer.",
        "So C, the city on the Seine, is the answer.",
        "So C (the third one) it is.",
        "Therefore, C, since the Seine flows through it.",
        "So C is right after all.",
        "We choose C as the answer.",
        "I'd choose C as the most likely capital.",
        "I think the answer is A. No: it is in Germany. So C.",
        "The answer is A. But Berlin is in Germany. The answer is C.",
        "The answer is A. Berlin? No. I conclude that C is the correct answer.",
        "C is the faster one. The answer is C.",
        "A is the faster one. The answer is C.",
    ],
)
def test_a_conclusion_about_the_choice_itself_is_still_an_answer(text: str) -> None:
    assert label(text) == "C"


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("الإجابة الصحيحة هي C.", "الإجابة A خاطئة لأن برلين في ألمانيا."),
        ("پاسخ صحیح C است.", "پاسخ A نادرست است زیرا برلین در آلمان است."),
        ("درست جواب C ہے۔", "جواب A غلط ہے کیونکہ برلن جرمنی میں ہے۔"),
        ("התשובה הנכונה היא C.", "תשובה A שגויה כי ברלין בגרמניה."),
        ("सही उत्तर C है।", "उत्तर A गलत है क्योंकि बर्लिन जर्मनी में है।"),
        ("সঠিক উত্তর C।", "উত্তর A ভুল কারণ বার্লিন জার্মানিতে।"),
        ("சரியான பதில் C.", "பதில் A தவறு."),
        ("సరైన సమాధానం C.", "సమాధానం A తప్పు."),
        ("સાચો જવાબ C છે.", "જવાબ A ખોટો છે."),
        ("ਸਹੀ ਜਵਾਬ C ਹੈ।", "ਜਵਾਬ A ਗਲਤ ਹੈ।"),
        ("ಸರಿಯಾದ ಉತ್ತರ C.", "ಉತ್ತರ A ತಪ್ಪು."),
        ("ശരിയായ ഉത്തരം C ആണ്.", "ഉത്തരം A തെറ്റാണ്."),
        ("คำตอบที่ถูกต้องคือ C", "คำตอบ A ผิด เพราะเบอร์ลินอยู่ในเยอรมนี"),
        ("Doğru cevap C'dir.", "Cevap A (Berlin) yanlıştır."),
        ("Đáp án đúng là C.", "Đáp án A (Berlin) sai."),
        ("正解はCです。", "正解はAのように見えますが、違います。"),
        ("正解はCである。", "答えはA以外です。"),
        ("정답은 C입니다.", "정답은 A라고 생각할 수 있지만 아닙니다."),
        ("정답은 C이다.", "정답은 A일 수 없습니다."),
    ],
)
def test_an_answer_of_which_its_sentence_says_that_it_is_wrong_is_none(right: str, wrong: str) -> None:
    """Where the verb comes last, "the answer A is wrong" begins like "the answer is A"."""
    assert label(wrong) is None
    assert label(right) == "C"
    assert label(f"{right}\n\n{wrong}") == "C"


@pytest.mark.parametrize("text", ["答えはA。いや、Bです。", "정답은 A입니다. 아니요, B입니다.", "答案是A。不，是B。"])
def test_a_no_behind_the_answer_takes_it_back_in_east_asian_languages(text: str) -> None:
    assert extract(text, CITIES).rule == "retracted"
    assert label(f"{text.partition('A')[0]}A。") == "A"


@pytest.mark.parametrize(
    "further",
    [
        "Q: Name the capital of Spain.\nA: B",
        "Q: 12 + 5 =\nA: The answer is B.",
        "Q2: The capital of Spain is\nAnswer: B",
        "Q: The capital of Spain is\n\nA. Rome\nB. Madrid\nAnswer: B",
        "Q3: Finish this sentence.\nWho was the king of Spain?\nThe answer is B.",
    ],
)
def test_a_question_behind_q_is_a_further_one_also_without_a_question_mark_in_its_line(further: str) -> None:
    assert label(f"C\n\n{further}") == "C"
    assert label(f"The answer is C.\n\n{further}") == "C"


@pytest.mark.parametrize(
    "values",
    [
        "Q1: 25\nQ3: 75",
        "**Q1:** 25\n**Q3:** 75\n\nIQR = 75 - 25 = 50",
        "Q1: lower quartile = 25\nQ3: upper quartile = 75",
        "* Q1: 25 (the median of the lower half)\n* Q3: 75 (the median of the upper half)",
        "Q: 500 J\nm: 2 kg",
        "Q1: sales grew\nQ2: sales fell",
    ],
)
def test_a_quartile_or_an_amount_of_heat_begins_no_further_question(values: str) -> None:
    numbers = ("25", "50", "75", "100")
    assert label(f"{values}\n\nThe answer is B.", numbers) == "B"
    assert label(f"Given:\n{values}\nThe answer is B.", numbers) == "B"


ASKED = "What is the capital of France?"
LISTED = "A. Berlin\nB. Madrid\nC. Paris\nD. Rome"


@pytest.mark.parametrize(
    "text",
    [
        "I'll break this down.\n\n## Question Analysis\nWe need the capital.\n\n**Answer: C**",
        f"Sure! Let me help.\n\n### Question\n{ASKED}\n\n### Answer\nC",
        f"First I restate the task.\n\nQuestion: {ASKED}\n\nThe answer is C.",
        f"Sure.\n\n**Question:** {ASKED}\n{LISTED}\n\n**Answer:** C",
        f"Sure.\n\nQuestion: {ASKED}\n\nThe answer is C.\n\nQuestion: And of Spain?\nThe answer is B.",
        "Here is my reasoning:\n\nUser: wants the capital.\nThe answer is C.",
    ],
)
def test_a_text_that_restates_its_question_before_it_answers_is_answered(text: str) -> None:
    assert extract(text, CITIES, ASKED).label == "C"


@pytest.mark.parametrize(
    "behind",
    [
        "Question: What is the capital of Spain?\n\nThe answer is B.",
        f"Question: What is the capital of Spain?\n{LISTED}\nAnswer: B",
        f"Question: {ASKED}\nA. Lyon\nB. Paris\nAnswer: B",
        "### Instruction:\nName the capital of Spain.\n\n### Response:\nB",
        "The capital of Italy is\n\nQuestion: The capital of Spain is\nAnswer: B",
        "User: And of Spain?\nThe answer is B.",
        "Human: next one\n\nAssistant: The answer is B.",
    ],
)
def test_the_answer_to_a_made_up_question_is_not_taken_where_the_own_question_has_none(behind: str) -> None:
    assert extract(f"I don't know.\n\n{behind}", CITIES, ASKED) == Extraction(None, "none")


# --- properties -----------------------------------------------------------------------------------------------------

_PIECES = (
    "A B C D E I a c ( ) . , : ? ** \\boxed{ } <think> </think> the answer is Answer: not or and option 2 Paris Rome "
    "wait, so it's correct wrong if 答案是 \n"
)
TEXTS = st.text() | st.lists(st.sampled_from(_PIECES.split(" ")), max_size=12).map(" ".join)


@given(TEXTS, st.lists(st.text(min_size=1), min_size=2, max_size=26))
def test_a_label_is_always_one_of_the_question(text: str, choices: list[str]) -> None:
    found = extract(text, choices)
    known = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"[: len(choices)]
    assert found.label is None or found.label in known
    assert set(found.candidates) <= set(known)
    assert (found.label is None) == (found.rule not in {each.name for each in (*EXPLICIT, *IMPLICIT)})


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
    ],
)
def test_a_hundred_kilobytes_of_anything_are_read(piece: str) -> None:
    """Under a second each; pytest's own limit would show a text that takes quadratic time."""
    assert label(piece * (100_000 // len(piece)) + "\n\nThe answer is C.") in {"C", None}


@pytest.mark.parametrize(
    ("verdict", "names"), [('["wrong"]', "B"), ('{"B": "right"}', "B"), ("0", "B"), ("null", "B"), ("false", None)]
)
def test_json_with_a_verdict_of_any_type_is_read_and_fails_no_question(verdict: str, names: str | None) -> None:
    said = f'{{"answer": "B", "verdict": {verdict}}}'
    assert extract(said, CITIES, "What is the capital of Spain?").label == names
