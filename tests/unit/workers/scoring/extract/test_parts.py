"""Letters and numbers that head a part of an answer, an item of a list or a step, or that stand for something else."""

from __future__ import annotations

import pytest

from tests.unit.workers.scoring.extract.extracting import CITIES, PLANETS, label
from workers.scoring.extract import extract

NUMBERS = ("12", "15", "18", "20")


@pytest.mark.parametrize(
    "text",
    [
        "(a) The force is the mass times the acceleration, or 14 N. (b) The work is 28 J.",
        "a) The force is the mass times the acceleration.\n\nb) The work is",
        "(a) The force is the mass times",
        "a. We look at the force first.",
        "Solution:\n(a) We use Newton's second law.",
        "The answers are:\n\na) The force is 14 N.\n\nb) The work is 28 J.",
        "The answers are (a) 14 N, (b) 28 J.",
        "The force is 14 N.\n(b) The work is 28 J.\n(c)",
        "We double the radius:\n\n$d",
    ],
)
def test_a_small_letter_before_a_part_of_the_answer_is_no_choice(text: str) -> None:
    assert label(text) is None
    assert label(f"{text}\n\nThe answer is (C).") == "C"


@pytest.mark.parametrize(
    "text",
    ["c", "(c)", "c) Paris", "c, because it lies in France", "c) because it does", "Answer:\nc) Paris", "Answer: c"],
)
def test_a_small_letter_that_is_the_answer_is_read(text: str) -> None:
    assert label(text) == "C"


@pytest.mark.parametrize("text", ["The answer is (a) and (b).", "The answer is (a) or (b).", "Answer: (a), (b)"])
def test_two_small_letters_are_two_choices(text: str) -> None:
    assert extract(text, CITIES).candidates == ("A", "B")


@pytest.mark.parametrize(
    "text",
    [
        "(I) The rate of transport is given by Fick's law, with the gradient",
        "(i) The rate of transport is given by Fick's law. (ii) The flux is",
        "Therefore the correct statements are (i) and (iii).",
        "Thus, (i), (ii) and (iii) are true.",
        "So I and III are right.",
    ],
)
def test_a_roman_one_before_other_roman_numerals_or_a_part_is_not_the_ninth_choice(text: str) -> None:
    assert label(text, PLANETS) is None
    assert label("The answer is (I).", PLANETS) == "I"


@pytest.mark.parametrize(
    "text",
    [
        "Conclusion:\n1. It lies on the Seine.",
        "Premises:\n1. All men are mortal.\n\nConclusion:\n3. ~E or ~F",
        "Answer:\n\n1. Find the country.\n2. Find its capital.",
        "Answer: 2. Find the country. 3. Find its capital.",
    ],
)
def test_a_number_before_an_item_of_a_list_is_no_position(text: str) -> None:
    assert label(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "Answer:\n3",
        "Answer:\n3. Paris",
        "Answer: 3. Paris, as it lies on the Seine.",
        "The answer is 3. It lies there.",
    ],
)
def test_a_number_that_is_the_answer_is_read(text: str) -> None:
    assert label(text) == "C"


@pytest.mark.parametrize("mark", ["{}. {}", "{}) {}", "({}) {}", "{} {}", "{}: {}"])
@pytest.mark.parametrize("between", [" ", "\t", "   "])
@pytest.mark.parametrize("before", ["", "Answer: ", "The options are ", "答案："])
def test_choices_listed_in_one_line_are_no_answer(before: str, between: str, mark: str) -> None:
    listed = between.join(mark.format(each, city) for each, city in zip("ABCD", CITIES, strict=True))
    assert label(before + listed) is None


@pytest.mark.parametrize(
    "text",
    [
        "so P(A, B, C) = P(A | B, C) * P(B | C) * P(C)",
        "We know that [A] is 10 % of [A0], so [A] = 0.1 [A0].",
        "So C (z) = 30 z / (6 z - 1)",
        "where S is the price of the stock, C is the call option premium",
        "The Faraday constant (C) is the charge of one mole of electrons.",
    ],
)
def test_a_letter_that_is_a_quantity_is_no_choice(text: str) -> None:
    assert label(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "So x is a solution to f(x)=12. Similarly, y is",
        "Hence the answer is 12! / (15 * 2) =",
    ],
)
def test_a_number_that_belongs_to_a_formula_is_no_answer(text: str) -> None:
    assert label(text, NUMBERS) is None


@pytest.mark.parametrize("some", ["12 名学生", "15个球", "18 张牌", "20 人"])
def test_so_many_things_that_are_chosen_in_chinese_are_no_answer(some: str) -> None:
    assert label(f"我们可以这样思考：选择 {some}，方法数是", NUMBERS) is None
    assert label(f"所以选{some}的方法数是", NUMBERS) is None
    assert label("所以选18。", NUMBERS) == "C"


def test_the_solution_to_an_equation_stands_behind_it() -> None:
    assert label("The solution to 2x + 3 = 20 is x = 12.", NUMBERS) == "A"


def test_statements_joined_by_and_are_no_choice_that_has_some_of_them() -> None:
    statements = ("①②", "①③", "②④", "①②④")
    assert label("正确答案应该是①②和④。", statements) == "D"
    assert label("正确答案应该是①②和④。", statements[:3]) is None
    assert label("正确答案应该是①、②。", statements) == label("正确答案应该是①②。", statements) == "A"


@pytest.mark.parametrize(
    "text",
    [
        "A is correct because it fits.\nB is incorrect.\nC",
        "It lies there, so (A) is correct. It does not, so (B) is incorrect. It may",
        "A选项错误。\nB选项正确。\nC选项，",
        "选项A是正确的。选项B是错误的，",
        "In Germany lies Berlin. So the B",
        "我们可以逐一检查选项。\n\nA.",
    ],
)
def test_a_text_that_goes_through_the_choices_and_is_cut_off_names_none(text: str) -> None:
    assert label(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "A is incorrect.\nB is incorrect.\nC is correct.",
        "C is correct.\nA is incorrect.\nB is incorrect.\nD is incorrect.",
        "A选项错误。\nB选项错误。\nC选项正确。\nD选项错误。",
        "C选项正确。",
    ],
)
def test_a_text_that_goes_through_the_choices_to_the_end_names_the_right_one(text: str) -> None:
    assert label(text) == "C"


@pytest.mark.parametrize(
    "text",
    [
        "(a) Madrid lies in Spain. The answer is (B). (b) Paris lies in France. The answer is (C).",
        "a) It is the largest of Spain. The answer is B.\n\nb) It is that of France. The answer is C.",
        "1) One lies in Spain. The answer is B. 2) One lies in France, so the answer is C.",
        "(i) In Spain. The answer is (B). (ii) In Italy. The answer is (D). (iii) In France. The answer is (C).",
        "Statement 1: True, for Spain. So, the answer is (B).\nStatement 2: True, for France. So, the answer is (C).",
    ],
)
def test_answers_to_the_parts_of_a_question_are_no_answer_to_the_whole(text: str) -> None:
    found = extract(text, CITIES)
    assert (found.label, found.rule) == (None, "ambiguous")
    assert label(f"{text}\n\nTaken together, the answer is (D).") == "D"


@pytest.mark.parametrize(
    "text",
    [
        "(a) It lies in France. The answer is C. (b) It lies on the Seine. The answer is C.",
        "The answer is B. No, wait. (a) Madrid lies in Spain. (b) Paris lies in France. The answer is C.",
        "(a) Is it Madrid? The answer is B, no, wait. (b) Is it Paris? The answer is C.",
        "(a) Madrid lies in Spain. (b) Paris lies in France. The answer is C.",
        "The answer is B if we look at Spain. (b) is of no use. The answer is C.",
    ],
)
def test_an_answer_to_the_whole_behind_its_parts_is_read(text: str) -> None:
    assert label(text) == "C"
