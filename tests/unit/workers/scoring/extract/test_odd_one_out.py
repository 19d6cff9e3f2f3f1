"""What is read of an answer to a question that asks for the choice that is *not* so."""

from __future__ import annotations

import pytest

from workers.scoring.extract import extract
from workers.scoring.extract.sought import exception_sought

GASES = ("Helium", "Neon", "Oxygen", "Argon")
NOT_A_GAS = "Which of the following is NOT a noble gas?"
PLANETS = (
    "Mercury is the closest planet to the Sun.",
    "Venus is hotter than Mercury.",
    "Mars is larger than Earth.",
    "Jupiter has more moons than Earth.",
)
FALSE_ONE = "Which of the following statements is false?"
DRUGS = ("Atenolol", "Amlodipine", "Insulin", "Losartan")
NOT_USED = "Which of the following drugs is not used to treat hypertension?"
RIGHTS = ("Speech", "Press", "Bearing arms", "Assembly")
ALL_EXCEPT = "All of the following are protected by the First Amendment EXCEPT"

# --- which questions ask for an exception ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("question", "false_statement"),
    [
        (NOT_A_GAS, False),
        (FALSE_ONE, True),
        (NOT_USED, False),
        (ALL_EXCEPT, False),
        ("Water boils at 100 °C at sea level. Which statement about boiling is not correct?", True),
        ("All are true about the Moon except:", True),
        ("Which metal isn't magnetic?", False),
        ("Which gas cannot burn?", False),
        ("False about whales:", True),
        ("Which of these is LEAST likely to float?", False),
        ("Salt is not used in which of these?", False),
        ("Who was not one of the kings named by J. Smith?", False),
        ("下列说法错误的是", True),
    ],
)
def test_an_exception_is_sought(question: str, false_statement: bool) -> None:
    sought = exception_sought(question)
    assert sought is not None
    assert sought.false_statement == false_statement


@pytest.mark.parametrize(
    "question",
    [
        "",
        "Which planet is the largest?",
        "Which of these best explains why Venus does not have a strong magnetic field?",
        "Which sentence describes what happens when water is not heated?",
        "The lamp does not glow. What should be tried first?",
        "A patient cannot walk. Which of these is the most likely diagnosis?",
        "What lives on land but not in the sea?",
    ],
)
def test_no_exception_is_sought_where_only_something_said_is_denied(question: str) -> None:
    assert exception_sought(question) is None


# --- what is read ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("question", "choices", "text"),
    [
        (NOT_A_GAS, GASES, "C is not a noble gas."),
        (NOT_A_GAS, GASES, "Helium, neon and argon are noble gases. Oxygen is not."),
        (NOT_A_GAS, GASES, "The one that is not a noble gas is oxygen."),
        (NOT_A_GAS, GASES, "Therefore, the option that is not a noble gas is C) Oxygen."),
        (NOT_A_GAS, GASES, "All of these are noble gases except C."),
        (NOT_A_GAS, GASES, "✅ A) Helium\n✅ B) Neon\n❌ C) Oxygen\n✅ D) Argon"),
        (NOT_A_GAS, GASES, "So A is not correct. The answer is C."),
        (FALSE_ONE, PLANETS, "The false statement is C."),
        (FALSE_ONE, PLANETS, "So the statement that is false is: C"),
        (FALSE_ONE, PLANETS, "Thus, option C is not correct."),
        (FALSE_ONE, PLANETS, "C is the incorrect statement."),
        (FALSE_ONE, PLANETS, "C is false, as Mars is smaller than Earth."),
        (FALSE_ONE, PLANETS, '"Mars is larger than Earth" is not true.'),
        (FALSE_ONE, PLANETS, "A is true. B is true. C is false. D is true."),
        (FALSE_ONE, PLANETS, "A, B, and D are correct statements, while C is incorrect."),
        (FALSE_ONE, PLANETS, "A) correct\nB) correct\nC) incorrect\nD) correct"),
        (FALSE_ONE, PLANETS, "\n".join(f"{'ABCD'[at]}) {PLANETS[at]} This is {at != 2}." for at in range(4)).lower()),
        (FALSE_ONE, PLANETS, "At first glance B is false, but Venus is in fact hotter. So C is false."),
        (NOT_USED, DRUGS, "Insulin is not used to treat hypertension; it is used for diabetes."),
        (NOT_USED, DRUGS, "The only drug that is not used to treat hypertension is insulin."),
        (NOT_USED, DRUGS, "Insulin does not treat hypertension."),
        (ALL_EXCEPT, RIGHTS, "Bearing arms isn't covered by the First Amendment, but by the Second."),
        (ALL_EXCEPT, RIGHTS, "All of these are protected by the First Amendment, except for bearing arms."),
    ],
)
def test_the_exception_is_read_where_the_question_asks_for_it(
    question: str, choices: tuple[str, ...], text: str
) -> None:
    assert extract(text, choices, question).label == "C"


@pytest.mark.parametrize(
    ("question", "choices", "text"),
    [
        (NOT_A_GAS, GASES, "Option A is incorrect because helium is a noble gas."),
        (NOT_A_GAS, GASES, "A is not the answer."),
        (NOT_A_GAS, GASES, "Helium is not reactive. It is a noble gas."),
        (NOT_A_GAS, GASES, "Argon is not just a noble gas but the most common one."),
        (NOT_A_GAS, GASES, "If oxygen is not a noble gas, then helium"),
        (NOT_A_GAS, GASES, "Oxygen is not a noble gas. Neon is not a noble gas."),
        (NOT_A_GAS, GASES, "Some people think neon is not a noble gas, but it is."),
        (NOT_A_GAS, GASES, "The incorrect answers are A, B and D."),
        (FALSE_ONE, PLANETS, "A is correct."),
        (FALSE_ONE, PLANETS, "A is true. B is true."),
        (FALSE_ONE, PLANETS, "A is incorrect because it is actually true."),
        (FALSE_ONE, PLANETS, "A is not false."),
        (FALSE_ONE, PLANETS, "A is false? No, Mercury is the closest."),
        (FALSE_ONE, PLANETS, "B is false or C is false."),
        (FALSE_ONE, PLANETS, "The false statement is not A."),
        (FALSE_ONE, PLANETS, "The false statement is either A or C."),
        (FALSE_ONE, PLANETS, "It would be wrong to say that A is false."),
        (NOT_USED, DRUGS, "Atenolol is not a calcium channel blocker, but treats hypertension."),
        (NOT_USED, DRUGS, "Atenolol is not used as a first drug to treat hypertension. Insulin is for diabetes."),
        (ALL_EXCEPT, RIGHTS, "All of the following are protected EXCEPT\n\nA) Speech\nB) Press\nC) Bearing arms"),
    ],
)
def test_nothing_is_read_where_no_exception_is_named(question: str, choices: tuple[str, ...], text: str) -> None:
    assert extract(text, choices, question).label is None


@pytest.mark.parametrize("text", ["C is not a noble gas.", "The false statement is C.", "Statement C is false."])
def test_a_denied_choice_is_no_answer_to_a_question_that_asks_for_what_is_so(text: str) -> None:
    assert extract(text, GASES, "Which of the following is a noble gas?").label is None


@pytest.mark.parametrize(
    ("question", "template"),
    [
        (NOT_A_GAS, "The answer is {label}. {text} is not a noble gas."),
        (NOT_A_GAS, "{label}) {text} is not a noble gas."),
        (NOT_A_GAS, "{text} is not a noble gas."),
        (NOT_A_GAS, "All are noble gases except {label}."),
        (FALSE_ONE, "Statement {label} is false."),
        (FALSE_ONE, "The false statement is {label}."),
        (FALSE_ONE, "{label} is incorrect."),
    ],
)
def test_each_choice_is_read_alike_as_the_exception(question: str, template: str) -> None:
    read = [extract(template.format(label="ABCD"[at], text=GASES[at]), GASES, question).label for at in range(4)]
    assert read == ["A", "B", "C", "D"]
