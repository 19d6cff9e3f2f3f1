"""Which choice a written answer names."""

from __future__ import annotations

import pytest

from tests.unit.workers.scoring.extract.extracting import BLOOD, CITIES, label
from workers.scoring.extract import Extraction, extract
from workers.scoring.extract.cues import CUES, Cue


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


def test_the_last_of_several_that_are_each_called_correct_is_no_answer() -> None:
    assert (
        label("It needs two of them, so (A) is correct. It needs a goal, so (C) is also correct. Not (B) or (D).")
        is None
    )
    assert label("So (C) is also correct.") == "C"


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
    "text",
    ["Final: C", "In short: C", "TL;DR: C", "Selected: C", "Best guess: C", "My guess: Paris", "选项C是正确的。"],
)
def test_short_announcements_are_read(text: str) -> None:
    assert label(text) == "C"
    assert label(f"Let me see.\n{text}") == "C"


@pytest.mark.parametrize(
    "text",
    [
        "👉 **C) Paris**",
        "It is in France.\n\n👉 C",
        "The answer is C 🎉",
        "Answer: C😊",
        "🎯 C",
        "It's Paris! 🗼",
        "C ✨",
    ],
)
def test_pictures_around_an_answer_do_not_hide_it(text: str) -> None:
    assert label(text) == "C"


@pytest.mark.parametrize(
    "text", ["`C`", "The answer is `C`.", "**Final answer:** `C) Paris`", "```\nC\n```", "It's `Paris`.", "`Paris`"]
)
def test_backticks_do_not_hide_an_answer(text: str) -> None:
    assert label(text) == "C"
    assert label(text.replace("Paris", "sorted(x)"), ("x", "`x.sort()`", "`sorted(x)`")) == "C"


@pytest.mark.parametrize(
    "text",
    [
        "The city on the Seine is: C. Paris",
        "The city meant here is:\n\nC. Paris.",
        "The city on the Seine is known as C. Paris.",
        'The city is known as "C. Paris".',
    ],
)
def test_a_label_and_its_text_that_complete_the_sentence_are_read(text: str) -> None:
    assert label(text) == "C"
    assert label("It is as large as A. Berlin.") is None
    assert label("The wrong city is: A. Berlin.") is None


def test_pictures_that_judge_or_are_choices_stay() -> None:
    assert label("The answer is C 👎") is None
    assert label("The answer is 🍎.", ("🍐", "🍎")) == "B"


@pytest.mark.parametrize(
    ("verdict", "names"), [('["wrong"]', "B"), ('{"B": "right"}', "B"), ("0", "B"), ("null", "B"), ("false", None)]
)
def test_json_with_a_verdict_of_any_type_is_read_and_fails_no_question(verdict: str, names: str | None) -> None:
    said = f'{{"answer": "B", "verdict": {verdict}}}'
    assert extract(said, CITIES, "What is the capital of Spain?").label == names


@pytest.mark.parametrize(
    ("said", "read"),
    [
        ("hypertension, diabetes, and obesity", "B"),
        ("hypertension, diabetes & obesity", "B"),
        ("hypertension and diabetes", "D"),
        ("hypertension", "A"),
        ("hypertension, diabetes or gout", None),
        ("iron", "B"),
        ("iron (III) oxide", "C"),
    ],
)
def test_a_choice_that_is_the_beginning_of_another_is_not_taken_for_it_where_only_the_signs_differ(
    said: str, read: str | None
) -> None:
    oxides = ("rust", "iron", "iron(III) oxide", "iron(II) oxide")
    growing = ("hypertension", "hypertension, diabetes and obesity", "obesity", "hypertension and diabetes")
    assert label(f"The answer is {said}.", oxides if said.startswith("iron") else growing) == read


@pytest.mark.parametrize(
    "text",
    [
        "If I'm not mistaken, the answer is C.",
        "If I remember correctly, the answer is C.",
        "Whether or not it rains there, the answer is C.",
        "The answer is to be Paris.",
    ],
)
def test_an_answer_is_read_beside_words_that_set_no_condition(text: str) -> None:
    assert label(text) == "C"


@pytest.mark.parametrize("text", ["Had it been Spain, I'd say B.", "My final answer is A. Edit: should be C."])
def test_an_answer_that_is_supposed_or_edited_away_is_none(text: str) -> None:
    assert label(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "Yes, that's a common question. The Earth is round.",
        "Yes! Happy to explain.",
        "No, this is not a trick question.",
    ],
)
def test_a_remark_on_the_question_is_no_yes_or_no(text: str) -> None:
    assert label(text, ("Yes", "No")) is None
    assert label(text.partition(" ")[0], ("Yes", "No")) is not None


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("The answer is mitosis. Meiosis, in contrast, yields gametes.", "A"),
        ("Answer: Mitosis\n\nMeiosis: this is wrong, as it makes gametes.", "A"),
        ("The answer is **Mitosis**\n\n* Meiosis: wrong", "A"),
        ("The answer is mitosis, and meiosis.", "C"),
        ("The answer is mitosis or meiosis.", None),
    ],
)
def test_what_the_next_sentence_or_line_begins_with_is_no_part_of_a_choice(text: str, read: str | None) -> None:
    assert label(text, ("Mitosis", "Meiosis", "Mitosis and meiosis", "Neither")) == read


@pytest.mark.parametrize(
    "text",
    [
        "選択肢Cが正解です。",
        "विकल्प C सही है।",
        "الخيار الصحيح هو C",
        "Правильный вариант: C",
        "Doğru seçenek C'dir.",
        "It lies on the Seine. **C**",
        "The capital is Paris **C**.",
    ],
)
def test_an_option_is_called_right_in_more_languages_and_a_label_in_bold_ends_a_text(text: str) -> None:
    assert label(text) == "C"


def test_what_is_called_wrong_in_another_language_is_no_answer() -> None:
    assert label("विकल्प C सही नहीं है।") is None
    assert label("選択肢Cは間違いです。") is None
