"""`compare` as a person meets it: figures, flips, and what could have been found."""

from __future__ import annotations

import pytest

from contract.ledger import MemoryLedger
from contract.mode import Mode
from contract.question import Question
from contract.spec import Judge, Sampling
from contract.verdict import Outcome, Verdict
from producer.runs.templates import load_prompt
from tests.support import make_question
from tests.unit.producer.compare.conftest import SPEC, Ran, keyed
from tests.unit.producer.conftest import Producer


def test_the_figures_are_those_of_the_pairs_with_a_key(ran: Ran, compare: Producer) -> None:
    ran("one", "ccwwufa")
    ran("two", "cwcccwa", model="large")

    found = compare.json("one", "two")

    # q0 both, q1 only A, q2 to q4 only B, q5 in no pair (it failed in A); q6 has no key.
    assert found["contingency"] == {"both": 1, "only_a": 1, "only_b": 3, "neither": 0}
    assert (found["pairs"], found["without_key"], found["either_failed"]) == (5, 1, 1)
    assert found["failed"] == {"only_a": 1, "only_b": 0, "both": 0}
    assert (found["a"]["accuracy_pairs"]["right"], found["b"]["accuracy_pairs"]["right"]) == (2, 4)
    assert found["difference"]["value"] == pytest.approx(2 / 5, abs=1e-6)
    # Four discordant pairs, one of them for A: 2 · (1 + 4 / 2) / 16.
    assert found["mcnemar"] == {"p_value": pytest.approx(6 / 16), "test": "mid-p", "discordant": 4}
    assert found["minimum_detectable_effect"]["power"] == 0.8
    assert found["spec_differences"] == {"model": {"a": "small", "b": "large"}}
    assert [each["id"] for each in found["flips"]] == ["q1", "q2", "q3", "q4"]
    assert found["flips"][3] == {
        "id": "q4",
        "subject": "red",
        "answer": "A",
        "outcome_a": "unanswered",
        "choice_a": None,
        "outcome_b": "correct",
        "choice_b": "A",
        "retrieval": None,
        "retrieval_hit": None,
    }
    assert "retrieval" not in found, "neither run had it"


def test_an_error_is_not_a_wrong_answer(ran: Ran, compare: Producer) -> None:
    # A worker that failed three questions looked like a model that had got worse.
    ran("one", "cccwwfffcc", keyed(10))
    ran("two", "cccwwccwff", keyed(10), seed=1)

    found = compare.json("one", "two")

    assert found["contingency"] == {"both": 3, "only_a": 0, "only_b": 0, "neither": 2}
    assert found["failed"] == {"only_a": 3, "only_b": 2, "both": 0}
    assert (found["difference"]["value"], found["mcnemar"]) == (0.0, {"p_value": 1.0, "test": "mid-p", "discordant": 0})
    assert found["flips"] == []
    assert "failed      5 questions: 3 only in A · 2 only in B; excluded" in compare("one", "two").stdout


def test_runs_that_answered_no_question_both_are_told_so(ran: Ran, compare: Producer) -> None:
    ran("one", "ffc", keyed(3))
    ran("two", "fcf", keyed(3), seed=1)

    trouble = compare("one", "two", exit_code=1).stderr

    assert "No question with a key was answered in both runs; failed: 3 questions:" in trouble
    assert "1 only in A · 1 only in B · 1 in both" in trouble
    assert "requeue RUN --failed" in trouble


def test_runs_whose_guesses_are_worth_different_amounts_are_each_told_with_their_own(
    ran: Ran, compare: Producer
) -> None:
    ran("one", "ccwwuca")
    ran("two", "cwcccwa", circular=True, prompt=load_prompt("lettered", Mode.LETTER))
    ran("three", "cwcccwa", mode=Mode.JUDGE, sampling=Sampling(), judge=Judge(prompt=SPEC.prompt))

    found = compare.json("one", "two")

    assert (found["chance"], found["a"]["chance"], found["b"]["chance"]) == (None, 0.5, 0.25)
    assert "chance      A 0.500 · B 0.250\n" in compare("one", "two").stdout
    assert "chance      A 0.500 · B -\n" in compare("one", "three").stdout


def test_the_chance_level_is_over_the_same_questions_as_the_accuracies(ran: Ran, compare: Producer) -> None:
    """Many failed questions of five choices made guesses among two look better than chance."""
    two, five = (make_question(n, choices=tuple("vwxyz"[:of]), answer="A") for n, of in enumerate((2, 5)))
    ran("one", "cf", [two, five], chance=0.35)
    ran("two", "wf", [two, five], chance=0.35)

    found = compare.json("one", "two")

    assert (found["chance"], found["a"]["accuracy_pairs"]["of"]) == (0.5, 1)


def test_that_a_circular_run_was_wrong_although_its_choice_is_the_key_is_explained(ran: Ran, compare: Producer) -> None:
    """A row of the flipped questions was `q1  red  A  A correct  A wrong`."""
    ran("one", "ccwwuca")
    ran("two", "cwcccwa", circular=True)
    ran("three", "ccwwuca", circular=True, seed=1)

    meant = "a choice is the most frequent one of a question's rotations, and correct only if all of them are"
    assert f"rotations   in B, {meant}\n" in compare("one", "two").stdout
    assert f"rotations   in A and B, {meant}\n" in compare("two", "three").stdout
    assert "rotations" not in compare("one", "three").stdout, "no question flipped, so no choice is shown"


def test_a_person_sees_the_same_and_the_first_questions_that_flipped(ran: Ran, compare: Producer) -> None:
    ran("one", "ccwwufa")
    ran("two", "cwcccwa", model="large")

    text = compare("one", "two", "--flips", 2).stdout

    assert "A           0.400  95 % interval 0.118 to 0.769 (2 of 5)  one" in text
    assert 'differ in   model: "small" → "large"' in text
    assert "pairs       5: both right 1 · only A 1 · only B 3 · neither 0" in text
    # 2/7 only A, 4/7 only B: 2/7 ± 1.95996 · √((6/7 - (2/7)²) / 7) = 0.28571 ± 0.65237.
    assert "difference  +0.400  95 % interval -0.367 to +0.938 (B minus A)" in text
    assert "McNemar     p = 0.38 (mid-p, two-sided, 4 discordant pairs)" in text
    assert "failed      1 question: 1 only in A; excluded, as an error is not a wrong answer" in text
    assert "no key      1 question, excluded" in text
    assert "flipped     4, shown 2; all: --flips 4" in text
    assert [line.split() for line in text.splitlines()[-3:]] == [
        ["question", "subject", "key", "A", "B"],
        ["q1", "red", "A", "A", "correct", "B", "wrong"],
        ["q2", "red", "A", "B", "wrong", "A", "correct"],
    ]


def test_how_many_of_the_pairs_each_run_left_without_an_answer_stands_beside_the_difference(
    ran: Ran, compare: Producer
) -> None:
    # B lost by not answering, not by answering otherwise; the last question failed in B and is in no pair.
    ran("one", "cccwu", keyed(5))
    ran("two", "cuuuf", keyed(5), seed=1)

    found = compare.json("one", "two")

    assert (found["a"]["unanswered"], found["b"]["unanswered"]) == (0, 3)
    assert "unanswered  A 0 · B 3 of the pairs, counted as incorrect" in compare("one", "two").stdout
    ran("three", "ccccw", keyed(5), seed=2)
    ran("four", "cccww", keyed(5), seed=3)
    told = compare("three", "four").stdout
    assert "unanswered" not in told
    assert "no key" not in told


def test_runs_that_the_simulated_engine_answered_are_not_compared_without_a_word(
    ledger: MemoryLedger, ran: Ran, compare: Producer
) -> None:
    ran("one", "cc", keyed(2))
    ran("two", "--", keyed(2), seed=1)
    for question in keyed(2):
        made_up = Verdict(question_id=question.id, outcome=Outcome.WRONG, choice="B", simulated=True)
        ledger.commit("two", [made_up])

    assert "simulated   A 0 · B 2 of the pairs, so these figures are meaningless" in compare("one", "two").stdout


def test_a_difference_that_only_one_of_test_and_interval_finds_is_called_undecided(ran: Ran, compare: Producer) -> None:
    # None won by A alone and five by B: p = 0.031, and an interval that reaches below zero.
    ran("one", "w" * 5 + "c" * 95, keyed(100))
    ran("two", "c" * 100, keyed(100), seed=1)
    ran("three", "w" * 20 + "c" * 80, keyed(100), seed=2)

    found = compare.json("one", "two")

    assert found["mcnemar"]["p_value"] < 0.05
    assert found["difference"]["low"] < 0
    assert found["undecided"]
    told = "undecided   interval and test are approximations, and only one of them shows a difference"
    assert told in compare("one", "two").stdout
    assert "undecided" not in compare("three", "two").stdout
    assert "undecided" not in compare("two", "three").stdout


def test_a_p_value_too_small_for_a_number_is_not_told_as_zero(ran: Ran, compare: Producer) -> None:
    ran("one", "w" * 1200, keyed(1200))
    ran("two", "c" * 1200, keyed(1200), seed=1)

    assert "McNemar     p < 1e-300 (mid-p, two-sided, 1,200 discordant pairs)" in compare("one", "two").stdout


def test_ten_flips_are_shown_where_nobody_says_how_many(ran: Ran, compare: Producer) -> None:
    many = keyed(12)
    ran("one", "c" * 12, many)
    ran("two", "w" * 12, many, seed=1)

    text = compare("one", "two").stdout

    assert "flipped     12, shown 10; all: --flips 12" in text
    assert [line.split()[0] for line in text.splitlines()[-2:]] == ["q8", "q9"]
    assert "q0" not in compare("one", "two", "--flips", 0).stdout


def test_a_run_against_itself_differs_in_nothing(ran: Ran, compare: Producer) -> None:
    ran("one", "ccwwwwa")

    text = compare("one", "last").stdout

    assert "differ in   nothing: both runs asked the same thing" in text
    assert "difference  +0.000  95 % interval -0.346 to +0.346" in text, "six pairs are too few to say more"
    assert "detectable  no difference: too few discordant pairs" in text
    assert "flipped     0, shown 0\n" in text
    assert "failed" not in text


def test_what_could_have_been_found_is_said(ran: Ran, compare: Producer) -> None:
    many = keyed(100)
    ran("one", "c" * 60 + "w" * 40, many)
    ran("two", "c" * 50 + "w" * 30 + "c" * 20, many, seed=1)

    # ψ = 0.3, n = 100: √0.3 · (1.95996 · 10 + 0.84162 · √(100 + 0.70833 - 3.84146)) / 100.70833 = 0.15165
    told = "0.152 or more (about 80 % power at level 0.05, given these numbers of pairs and discordant pairs)"
    assert f"detectable  {told}\n" in compare("one", "two").stdout
    found = compare.json("one", "two")
    assert round(found["minimum_detectable_effect"]["value"], 3) == 0.152


def in_subjects(*subjects: str | None) -> list[Question]:
    asked = keyed(len(subjects))
    return [each.model_copy(update={"subject": subject}) for each, subject in zip(asked, subjects, strict=True)]


def test_a_difference_is_told_for_each_subject(ran: Ran, compare: Producer) -> None:
    asked = in_subjects("law", "law", "art", None)
    ran("one", "cwwc", asked)
    ran("two", "cccw", asked, seed=1)

    lines = [line.strip() for line in compare("one", "two").stdout.splitlines()]
    at = next(at for at, line in enumerate(lines) if line.startswith("by subject"))
    assert [line.removeprefix("by subject").strip().split(", ")[0] for line in lines[at : at + 3]] == [
        "none named: 1.000 → 0.000",
        "art: 0.000 → 1.000",
        "law: 0.500 → 1.000",
    ]
    assert (
        lines[at + 3]
        .strip()
        .startswith("not adjusted for multiple comparisons: without any true difference, one interval in twenty")
    )
    by_subject = compare.json("one", "two")["by_subject"]
    assert {name: (each["pairs"], each["difference"]["value"]) for name, each in by_subject.items()} == {
        "": (1, -1.0),
        "art": (1, 1.0),
        "law": (2, 0.5),
    }


def test_many_subjects_are_only_counted_and_a_single_one_is_not_told_apart(ran: Ran, compare: Producer) -> None:
    many = in_subjects(*(f"s{n}" for n in range(13)))
    ran("one", "c" * 13, many)
    ran("two", "w" * 13, many, seed=1)
    assert "by subject  13 subjects; --json lists them, `report` up to 1,000" in compare("one", "two").stdout
    ran("three", "cc", in_subjects("law", "law"))
    ran("four", "wc", in_subjects("law", "law"), seed=1)
    assert "by subject" not in compare("three", "four").stdout
