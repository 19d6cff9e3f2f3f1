"""Accuracy with its interval; failed and unanswered questions are never lost from sight."""

from __future__ import annotations

import math

import pytest

from contract.ledger import Counts
from contract.question import Question
from contract.verdict import Outcome, Verdict
from producer.stats import Tally, share, tally

KEYED = Question(id="k", question="q", choices=("a", "b"), answer="A")
KEYLESS = Question(id="l", question="q", choices=("a", "b"))


def wilson(right: int, of: int) -> tuple[float, float]:
    z = 1.959963984540054
    p = right / of
    middle = p + z * z / (2 * of)
    spread = z * math.sqrt(p * (1 - p) / of + z * z / (4 * of * of))
    return (middle - spread) / (1 + z * z / of), (middle + spread) / (1 + z * z / of)


@pytest.mark.parametrize(("right", "of"), [(0, 1), (1, 1), (7, 10), (36, 160), (5000, 10000)])
def test_the_interval_is_wilsons(right: int, of: int) -> None:
    found = share(right, of)

    assert found is not None
    assert found.value == right / of
    assert (found.low, found.high) == pytest.approx(wilson(right, of), abs=1e-9)


def test_a_share_of_nothing_is_none() -> None:
    assert share(0, 0) is None


def test_unanswered_and_failed_count_over_all_and_not_over_answered() -> None:
    outcomes = [Outcome.CORRECT] * 3 + [Outcome.WRONG] * 2 + [Outcome.UNANSWERED] * 1 + [Outcome.FAILED] * 4

    found = tally((KEYED, Verdict(question_id="k", outcome=outcome)) for outcome in outcomes)

    over_all, over_answered = found.over_all(), found.over_answered()
    assert over_all is not None
    assert over_answered is not None
    assert (over_all.right, over_all.of) == (3, 10)
    assert (over_answered.right, over_answered.of) == (3, 5)


def test_questions_without_a_key_are_in_no_accuracy() -> None:
    found = Tally()
    found.add(KEYED, Verdict(question_id="k", outcome=Outcome.CORRECT))
    for outcome in (Outcome.ANSWERED, Outcome.FAILED, Outcome.UNANSWERED):
        found.add(KEYLESS, Verdict(question_id="l", outcome=outcome))
    found.add(KEYLESS, None)

    content = found.to_json()
    assert content["accuracy_all"]["of"] == 1
    assert content["outcomes"] == {"correct": 1, "wrong": 0, "unanswered": 1, "failed": 1, "answered": 1}
    assert (content["without_key"], content["unsettled"], content["total"]) == (3, 1, 5)


def test_counters_give_the_same_tally_where_all_have_keys() -> None:
    counts = Counts(total=4, todo=1, outcomes={Outcome.CORRECT: 1, Outcome.FAILED: 1, Outcome.ANSWERED: 1})

    found = Tally.of_counts(counts)

    assert (found.settled, found.unsettled, found.keyless.total()) == (3, 1, 1)
    assert counts.of(Outcome.ANSWERED) == 1, "the counts themselves are untouched"


def test_nothing_settled_is_no_accuracy() -> None:
    assert Tally().to_json()["accuracy_all"] is None


def test_rates_are_of_all_that_is_settled_with_a_key_or_without() -> None:
    found = Tally()
    for outcome in (Outcome.CORRECT, Outcome.UNANSWERED, Outcome.FAILED):
        found.add(KEYED, Verdict(question_id="k", outcome=outcome, truncated=outcome is Outcome.CORRECT))
    found.add(KEYLESS, Verdict(question_id="l", outcome=Outcome.FAILED))
    found.add(KEYLESS, None)

    assert found.rates() == {"of": 4, "unanswered": 0.25, "failed": 0.5, "truncated": 0.25}


def test_rates_of_nothing_are_none() -> None:
    assert Tally().rates() == {"of": 0, "unanswered": None, "failed": None, "truncated": None}
