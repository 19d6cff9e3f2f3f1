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
from tests.unit.workers.scoring.extract.extracting import BLOOD, CITIES, GERMS, PLANETS, label
from workers.scoring.extract import Extraction, extract
from workers.scoring.extract.cues import CUES, Cue
from workers.scoring.extract.rules import EXPLICIT, IMPLICIT


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


def test_the_last_of_several_that_are_each_called_correct_is_no_answer() -> None:
    assert (
        label("It needs two of them, so (A) is correct. It needs a goal, so (C) is also correct. Not (B) or (D).")
        is None
    )
    assert label("So (C) is also correct.") == "C"


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


# --- properties -----------------------------------------------------------------------------------------------------

_PIECES = (
    "A B C D E I a c ( ) . , : ? ** \\boxed{ } <think> </think> the answer is Answer: not or and option 2 Paris Rome "
    "wait, so it's correct wrong if 答案是 \n"
)
RULES = {rule.__name__.replace("_", "-") for rule in (*EXPLICIT, *IMPLICIT)}
TEXTS = st.text() | st.lists(st.sampled_from(_PIECES.split(" ")), max_size=12).map(" ".join)


@given(TEXTS, st.lists(st.text(min_size=1), min_size=2, max_size=26))
def test_a_label_is_always_one_of_the_question(text: str, choices: list[str]) -> None:
    found = extract(text, choices)
    known = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"[: len(choices)]
    assert found.label is None or found.label in known
    assert set(found.candidates) <= set(known)
    assert (found.label is None) == (found.rule not in RULES)


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
        "not A but ",
        "10² ",
        "✅ A) Berlin is ",
        "| A | No |\n",
        '{"answer": "A"}\n',
        "maybe A, ",
        "La réponse est A, enfin ",
        "It's Paris, so A. ",
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


@pytest.mark.parametrize(
    "text", ["Somit ist **A** falsch.", "Поэтому **A** неверно.", "Donc **A** est faux.", "故**A**错误。"]
)
def test_a_bold_label_of_which_more_is_said_in_another_language_is_no_answer(text: str) -> None:
    assert label(text) is None
