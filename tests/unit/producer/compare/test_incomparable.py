"""Runs that cannot be compared, and what is said of them."""

from __future__ import annotations

import pytest

from contract.ledger import MemoryLedger, RunState
from contract.mode import Mode
from contract.question import Question
from contract.spec import Sampling
from tests.unit.producer.compare.conftest import QUESTIONS, Ran, keyed
from tests.unit.producer.conftest import Producer


@pytest.mark.parametrize(
    ("ids", "wanted"),
    [
        (
            ["q0", "q1", "x2"],
            "they have 7 and 3 question ids, with 2 in common, of which 2 differ, first in question and subject of q0. "
            "Enqueue the same file",
        ),
        (
            [f"q{n}" for n in range(7)],
            "they have 7 and 7 question ids, with 7 in common, but they differ, first in question and subject of q0.",
        ),
        (["x"], "they have 7 and 1 question id, with 0 in common."),
    ],
    ids=["some", "all", "none"],
)
def test_runs_over_different_questions_are_refused(ran: Ran, compare: Producer, ids: list[str], wanted: str) -> None:
    others = [Question(id=each, question="other", choices=("a", "b"), answer="A") for each in ids]
    ran("one", "ccccccc")
    ran("two", "c" * len(others), others, questions_digest="1" * 64)

    result = compare("one", "two", exit_code=1)

    assert "error: Runs one and two asked different questions: " in result.stderr
    assert wanted in result.stderr
    assert "--shared" not in result.stderr, "they have nothing to compare"
    assert result.stdout == ""


def test_runs_over_the_same_questions_in_another_order_are_refused(ran: Ran, compare: Producer) -> None:
    ran("one", "cc", keyed(2))
    ran("two", "cc", keyed(2)[::-1], questions_digest="1" * 64)

    told = compare("one", "two", exit_code=1).stderr
    assert "with 2 in common, but in another order. Add --shared to compare the 2 that are the same in both" in told
    assert "difference  +0.000" in compare("one", "two", "--shared").stdout


@pytest.mark.parametrize(("one", "two", "culprit"), [("ccccc-c", "ccccccc", "one"), ("ccccccc", "ccccc-c", "two")])
def test_a_run_that_is_not_settled_is_refused(ran: Ran, compare: Producer, one: str, two: str, culprit: str) -> None:
    ran("one", one)
    ran("two", two)

    result = compare("one", "two", exit_code=1)

    assert f"Run {culprit} is not settled: 6 of 7 questions settled." in result.stderr
    assert f"python -m producer watch {culprit}" in result.stderr


@pytest.mark.parametrize("state", [RunState.PAUSED, RunState.CANCELLED])
def test_nobody_is_told_to_wait_for_a_run_that_is_halted(
    ran: Ran, compare: Producer, ledger: MemoryLedger, state: RunState
) -> None:
    ran("one", "ccccc-c")
    ran("two", "ccccccc")
    ledger.halt("one", state)
    told = compare("one", "two", exit_code=1).stderr
    assert f"6 of 7 questions settled. It is {state}; resume it first: python -m producer resume one" in told
    assert "or export both as they are and join their results.csv by question_id" in told


def test_questions_without_any_key_cannot_be_compared(ran: Ran, compare: Producer) -> None:
    ran("one", "a", QUESTIONS[6:])
    ran("two", "a", QUESTIONS[6:], seed=1)

    assert "None of the 1 question has a key" in compare("one", "two", exit_code=1).stderr


@pytest.mark.parametrize("other", ["prompts", "two"])
def test_texts_to_prompts_cannot_be_compared_as_none_is_right_or_wrong(ran: Ran, compare: Producer, other: str) -> None:
    """A key was asked for, and the field of the file that has it."""
    prompts = [Question(id="0", question="Tell me a story.", choices=())]
    ran("prompts", "a", prompts, mode=Mode.FREE, sampling=Sampling())
    ran("two", "c", QUESTIONS[:1], questions_digest="1" * 64)

    assert compare(other, "prompts", exit_code=1).stderr == (
        "error: Run prompts (mode free) has no right or wrong answers: its texts are the result. "
        "Export both runs, and join their results.csv by question_id.\n"
    )


def test_an_unknown_run_is_one_line(ran: Ran, compare: Producer) -> None:
    ran("one", "ccccccc")

    assert "error: No run 'three'" in compare("one", "three", exit_code=1).stderr
