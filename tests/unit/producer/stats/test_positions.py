"""Where right and chosen answers were shown, and a model that prefers a position whatever stands there."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from contract.choice_order import orders
from contract.ledger import MemoryLedger, Run, RunState
from contract.mode import Mode
from contract.question import LABELS, Question
from contract.spec import Judge, Sampling
from contract.verdict import Outcome, Verdict
from producer.export.summary import Summary
from producer.report.figures import position_bias
from producer.result_lines import position_lines
from producer.runs.templates import load_prompt
from producer.stats import Positions
from producer.stats.positions import Preference
from tests.support import make_question, make_questions, make_spec, open_run
from tests.unit.producer.conftest import Producer


def answer(ledger: MemoryLedger, run: Run, questions: Sequence[Question], chosen: Sequence[str]) -> None:
    """Settle the run: each question has the choice with that label, in the file's order."""
    for question, label in zip(questions, chosen, strict=True):
        outcome = Outcome.CORRECT if label in question.right else Outcome.WRONG
        ledger.commit(run.run_id, [Verdict(question_id=question.id, choice=label, outcome=outcome)])


def summary_of(ledger: MemoryLedger, run: Run) -> Summary:
    return Summary.of(run, RunState.RUNNING, ledger.results(run.run_id))


def drawn(
    of: int, *, choices: int, knows: float, prefers_first: float, first_is_right: float = 0.0, seed: int = 0
) -> Positions:
    """Answers of a model that knows some, says the first choice for some of the others, and guesses the rest."""
    chance = np.random.default_rng(seed)
    keys = np.where(chance.random(of) < first_is_right, 0, chance.integers(0, choices, of))
    guesses = np.where(chance.random(of) < prefers_first, 0, chance.integers(0, choices, of))
    chosen = np.where(chance.random(of) < knows, keys, guesses)
    pairs = zip(keys.tolist(), chosen.tolist(), strict=True)
    return Positions(Counter((choices, (LABELS[key],), LABELS[choice]) for key, choice in pairs))


@pytest.mark.parametrize("choices", [2, 3, 4, 8])
def test_a_model_that_says_the_first_choice_whatever_it_is_prefers_that_position(choices: int) -> None:
    found = drawn(160, choices=choices, knows=0.1, prefers_first=0.95)
    assert found.preferred() == Preference("A", found.chosen["A"], found.keys["A"], 160)


@pytest.mark.parametrize("of", [10, 20, 160])
@pytest.mark.parametrize("choices", [2, 4, 10])
@pytest.mark.parametrize("knows", [0.0, 0.9])
@pytest.mark.parametrize("first_is_right", [0.0, 0.7])
def test_neither_errors_nor_uneven_keys_are_a_preference_in_any_of_300_samples(
    of: int, choices: int, knows: float, first_is_right: float
) -> None:
    model: dict[str, Any] = {"choices": choices, "knows": knows, "first_is_right": first_is_right}
    samples = [drawn(of, prefers_first=0.0, seed=seed, **model) for seed in range(300)]
    assert [each for each in samples if each.preferred()] == []


def test_questions_that_a_file_repeats_prove_no_more_than_one_of_each() -> None:
    once = [drawn(20, choices=4, knows=0.0, prefers_first=0.0, seed=seed) for seed in range(300)]
    five_times = [Positions(Counter({kind: 5 * count for kind, count in each.kinds.items()})) for each in once]
    assert sum(each.preferred() is not None for each in five_times) > 10
    assert not any(each.preferred(design_effect=5.0) for each in five_times)


def test_questions_with_fewer_choices_may_be_harder_without_a_preference() -> None:
    found = Positions(Counter({(10, (at,), at): 90 for at in LABELS[:10]}))
    found.include(Positions(Counter({(2, (key,), at): 100 if key == "A" else 400 for key in "AB" for at in "AB"})))
    assert found.preferred() is None, "A is chosen wrongly in 400 of 500, but half of all answers there are wrong"


def test_a_preference_of_a_model_that_is_nearly_always_right_does_not_matter() -> None:
    always_first_if_wrong = Positions(Counter({(4, (at,), at): 250 for at in "ABCD"} | {(4, ("D",), "A"): 50}))
    assert always_first_if_wrong.preferred() is None


def test_a_model_that_says_a_wherever_it_is_wrong_prefers_it_although_most_keys_are_a() -> None:
    found = Positions(Counter({(4, ("A",), "A"): 900, (4, ("B",), "A"): 95, (4, ("B",), "B"): 5}))
    assert found.preferred() == Preference("A", chosen=995, key=900.0, of=1000)


def test_of_two_preferred_positions_the_one_in_greater_excess_is_told() -> None:
    found = Positions(Counter({(5, ("E",), "B"): 160, (5, ("E",), "A"): 220, (5, ("E",), "C"): 20}))
    assert found.preferred() == Preference("A", chosen=220, key=0.0, of=400)


def test_without_answers_nothing_is_preferred() -> None:
    assert Positions().preferred() is None
    assert Positions(Counter({(4, ("B",), "B"): 9})).preferred() is None, "without errors"


def test_where_a_circular_runs_choices_stood_is_counted_rotation_by_rotation(ledger: MemoryLedger) -> None:
    run = open_run(ledger, make_questions(2), circular=True)
    rotated: dict[str, Any] = {"outcome": Outcome.WRONG, "rotations": 4, "rotations_right": 1}
    # Of q0 the first one shown is chosen whatever it is; of q1 nothing is told, as before this was kept.
    first_shown = Verdict(question_id="q0", choice="A", rotation_choices=tuple("ABCD"), **rotated)
    ledger.commit(run.run_id, [first_shown, Verdict(question_id="q1", choice="A", **rotated)])

    found = summary_of(ledger, run).positions
    assert found.chosen == {"A": 4}
    assert found.keys == {"A": 1, "B": 1, "C": 1, "D": 1}
    figure = position_bias(found, run.spec)
    assert figure is not None
    assert figure.caption.startswith("4 answered rotations of questions with a key.")


@pytest.mark.parametrize(
    ("sticks_to", "preferred"), [("A" * 20, "A"), ("A" * 11 + "BCD" * 3, None)], ids=["always A", "of 20 questions, 11"]
)
def test_a_position_that_is_stuck_to_in_all_rotations_of_a_question_is_one_choice_of_it(
    ledger: MemoryLedger, sticks_to: str, preferred: str | None
) -> None:
    """One of four positions that is drawn for each question is often drawn for many; four times as many answers tell
    no more than the questions."""
    questions = make_questions(20)
    run = open_run(ledger, questions, mode=Mode.LETTER, prompt=load_prompt("", Mode.LETTER), circular=True)
    for question, label in zip(questions, sticks_to, strict=True):
        stuck = tuple(LABELS[order[LABELS.index(label)]] for order in orders(question, run.spec))
        verdict: dict[str, Any] = {"outcome": Outcome.WRONG, "rotations": 4, "rotations_right": 1}
        ledger.commit(run.run_id, [Verdict(question_id=question.id, choice="A", rotation_choices=stuck, **verdict)])

    found = summary_of(ledger, run)
    assert found.positions.chosen["A"] == 4 * sticks_to.count("A")
    assert (found.preferred_position and found.preferred_position.label) == preferred


def test_positions_are_those_that_the_model_was_shown(ledger: MemoryLedger) -> None:
    questions = make_questions(40)
    run = open_run(ledger, questions, shuffle=True)
    answer(ledger, run, questions, [each.answer or "" for each in questions])
    found = summary_of(ledger, run).positions
    assert found.keys == found.chosen
    assert [found.keys[at] for at in "ABCD"] != [10, 10, 10, 10], "in the file the key walks"


def test_a_guesser_shows_no_position_bias_where_several_choices_are_right(ledger: MemoryLedger) -> None:
    # Every pair of right choices once with every choice: right and wrong answers are at all positions alike.
    pairs = list(combinations("ABCD", 2))
    asked = [
        Question(id=f"{a}{b}{chosen}", question="?", choices=tuple("wxyz"), answer=a, also_right=(b,))
        for a, b in pairs
        for chosen in "ABCD"
    ]
    run = open_run(ledger, asked)
    answer(ledger, run, asked, [each.id[-1] for each in asked])
    found = summary_of(ledger, run).positions
    assert found.chosen == found.keys == dict.fromkeys("ABCD", 6)
    figure = position_bias(found, run.spec)
    assert figure is not None
    assert figure.rows == [(label, "0.250", "0.250") for label in "ABCD"]
    assert figure.caption.startswith("24 answered questions with a key.")


def test_a_position_at_which_no_key_stands_is_told_with_none() -> None:
    told = Positions(Counter({(3, ("A",), "B"): 4})).to_json()
    assert told == {"of": 4, "chosen": {"A": 0, "B": 4, "C": 0}, "keys": {"A": 4.0, "B": 0.0, "C": 0.0}}


def test_where_all_questions_have_the_same_choices_in_orders_of_their_own_a_position_can_be_preferred(
    ledger: MemoryLedger,
) -> None:
    questions = [make_question(n, choices=("yes", "no"), answer="AB"[n % 2]) for n in range(160)]
    run = open_run(ledger, questions, mode=Mode.LETTER, prompt=load_prompt("", Mode.LETTER), shuffle=True)
    answer(ledger, run, questions, [first_shown(question, run) for question in questions])
    preferred = summary_of(ledger, run).preferred_position
    assert preferred is not None
    assert (preferred.label, preferred.chosen) == ("A", 160)


def test_parts_of_a_run_add_up_to_the_whole() -> None:
    whole, part = (
        drawn(100, choices=4, knows=0.5, prefers_first=0.5),
        drawn(60, choices=3, knows=0.1, prefers_first=0.9),
    )
    expected = whole.kinds + part.kinds
    whole.include(part)
    assert whole.kinds == expected
    assert whole.of == 160


def first_shown(question: Question, run: Run) -> str:
    """The label in the file of the choice that the run shows first."""
    return LABELS[orders(question, run.spec)[0][0]]


@pytest.mark.parametrize("shuffle", [False, True])
def test_a_run_whose_model_prefers_a_position_says_so_and_what_to_do(
    ledger: MemoryLedger, producer: Producer, shuffle: bool
) -> None:
    questions = make_questions(40)
    run = open_run(ledger, questions, mode=Mode.LETTER, prompt=load_prompt("", Mode.LETTER), shuffle=shuffle)
    chosen = [first_shown(question, run) for question in questions]
    answer(ledger, run, questions, chosen)
    right = sum(label in question.right for question, label in zip(questions, chosen, strict=True))

    told = producer("export", run.run_id).stdout
    producer("report", run.run_id)

    counted = f"A is chosen in 40 of 40 answers and the key in {right}"
    every_order = "--set shuffle=false --set circular=true" if shuffle else "--set circular=true"
    said = f"{counted}; score by likelihood with a prompt that shows no choices, or ask every order with {every_order}"
    assert f"position  {said}\n" in told
    results = Path("results") / run.run_id
    assert said in (results / "report.html").read_text(encoding="utf-8")
    positions = json.loads((results / "summary.json").read_text())["positions"]
    assert (positions["of"], positions["chosen"], positions["preferred"]) == (
        40,
        {"A": 40} | dict.fromkeys("BCD", 0),
        "A",
    )
    assert (positions["keys"]["A"], sum(positions["keys"].values())) == (right, 40)


@pytest.mark.parametrize(
    ("changes", "spec"),
    [
        ({}, {}),
        ({"choices": ("yes", "no"), "answer": "B"}, {"mode": Mode.LETTER, "prompt": load_prompt("", Mode.LETTER)}),
    ],
    ids=["the prompt shows no choices", "the same choice always stands there"],
)
def test_where_it_cannot_be_the_position_none_is_called_preferred(
    ledger: MemoryLedger, producer: Producer, changes: dict[str, Any], spec: dict[str, Any]
) -> None:
    questions = [make_question(at, **changes) for at in range(40)]
    run = open_run(ledger, questions, **spec)
    answer(ledger, run, questions, ["A"] * 40)

    assert "position " not in producer("export", run.run_id).stdout
    found = json.loads((Path("results") / run.run_id / "summary.json").read_text())["positions"]
    assert (found["chosen"]["A"], found["preferred"]) == (40, None)


def test_a_circular_run_is_told_that_its_accuracy_knows_of_it() -> None:
    (_, said), *_ = position_lines(Preference("A", 90, 30, 120), make_spec(circular=True))
    assert said.startswith("A is chosen in 90 of 120 rotations and the key in 30; correct are only questions that ")


def test_free_answers_choose_no_position(ledger: MemoryLedger) -> None:
    questions = make_questions(2)
    judge = Judge(prompt=load_prompt("", Mode.JUDGE, grades=True))
    run = open_run(ledger, questions, mode=Mode.JUDGE, judge=judge, sampling=Sampling())
    answer(ledger, run, questions, ["A", "B"])
    assert summary_of(ledger, run).positions.of == 0
