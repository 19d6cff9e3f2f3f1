"""Accuracy with its interval; failed and unanswered questions are never lost from sight."""

from __future__ import annotations

import pytest
from scipy.stats import binomtest

from contract.ledger import Counts
from contract.question import Question
from contract.verdict import Outcome, Verdict
from producer.stats import Tally, share
from producer.stats.proportion import Sum

KEYED = Question(id="k", question="q", choices=("a", "b"), answer="A")
KEYLESS = Question(id="l", question="q", choices=("a", "b"))


@pytest.mark.parametrize(("right", "of"), [(0, 1), (1, 1), (7, 10), (36, 160), (5000, 10000)])
def test_the_interval_is_scipys_for_wilson(right: int, of: int) -> None:
    found = share(right, of)

    assert found is not None
    assert found.value == right / of
    theirs = binomtest(right, of).proportion_ci(0.95, method="wilson")
    assert (found.low, found.high) == pytest.approx((theirs.low, theirs.high), abs=1e-12)


def test_an_interval_does_not_leave_what_a_share_can_be_by_a_rounding_error() -> None:
    """It would be shown as -0."""
    for of in range(1, 100):
        none, every = share(0, of), share(of, of)
        assert none is not None
        assert every is not None
        assert str(none.to_json()["low"]) == "0.0"
        assert (none.low, every.high) == (0, 1), "all right would be below an accuracy of 1, and none right above 0"


def test_a_share_of_nothing_is_none() -> None:
    assert share(0, 0) is None


def test_a_mean_of_shares_has_the_interval_of_a_share_with_that_value() -> None:
    values = Sum()
    for each in (1.0, 0.5, 0.0, 0.5):
        values.add(each)

    found, of_four = values.mean(), share(2, 4)
    assert found is not None
    assert of_four is not None
    assert (found.value, found.of, found.low, found.high) == (0.5, 4, of_four.low, of_four.high)
    assert Sum().mean() is None


def test_unanswered_and_failed_count_over_all_and_not_over_answered() -> None:
    outcomes = [Outcome.CORRECT] * 3 + [Outcome.WRONG] * 2 + [Outcome.UNANSWERED] * 1 + [Outcome.FAILED] * 4

    found = Tally()
    for outcome in outcomes:
        found.add(KEYED, Verdict(question_id="k", outcome=outcome))

    over_all, over_answered = found.over_all(), found.over_answered()
    assert over_all is not None
    assert over_answered is not None
    assert (over_all.right, over_all.of) == (3, 10)
    assert (over_answered.right, over_answered.of) == (3, 5)


def test_where_questions_failed_a_second_accuracy_leaves_out_these_and_no_others() -> None:
    outcomes = [Outcome.CORRECT] * 3 + [Outcome.WRONG] * 2 + [Outcome.UNANSWERED] * 1 + [Outcome.FAILED] * 4

    failing, whole = Tally(), Tally()
    for outcome in outcomes:
        failing.add(KEYED, Verdict(question_id="k", outcome=outcome))
        if outcome is not Outcome.FAILED:
            whole.add(KEYED, Verdict(question_id="k", outcome=outcome))

    expected = share(3, 6)
    assert expected is not None
    assert failing.to_json()["accuracy_without_failed"] == expected.to_json()
    assert whole.to_json()["accuracy_all"] == expected.to_json(), "as if they had not been asked"
    assert "accuracy_without_failed" not in whole.to_json()


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

    found = Tally.of_counts(counts, without_key=0)

    assert (found.settled, found.unsettled, found.keyless.total()) == (3, 1, 1)
    assert counts.of(Outcome.ANSWERED) == 1, "the counts themselves are untouched"


def test_counters_of_a_finished_run_give_the_accuracy_of_its_export_though_a_question_without_a_key_failed() -> None:
    outcomes = {Outcome.CORRECT: 3, Outcome.WRONG: 1, Outcome.FAILED: 2, Outcome.ANSWERED: 1, Outcome.UNANSWERED: 1}
    counts = Counts(total=8, todo=0, outcomes=outcomes)

    found = Tally.of_counts(counts, without_key=2).to_json()

    assert (found["accuracy_all"]["right"], found["accuracy_all"]["of"], found["without_key"]) == (3, 6, 2)
    assert found["outcomes"] == {each.value: number for each, number in outcomes.items()}


@pytest.mark.parametrize("last", [Outcome.UNANSWERED, Outcome.FAILED])
@pytest.mark.parametrize("todo", [40, 0], ids=["running", "finished"])
def test_counters_of_a_run_without_any_key_give_no_accuracy(todo: int, last: Outcome) -> None:
    outcomes = {Outcome.ANSWERED: 97 - todo, last: 3}

    found = Tally.of_counts(Counts(total=100, todo=todo, outcomes=outcomes), without_key=100)

    assert (found.over_all(), found.all_failed) == (None, False)
    assert (found.keyless.total(), found.unsettled) == (100 - todo, todo)


def test_counters_of_a_running_run_give_no_more_questions_a_key_than_have_one() -> None:
    outcomes = {Outcome.CORRECT: 5, Outcome.ANSWERED: 1, Outcome.FAILED: 3}
    found = Tally.of_counts(Counts(total=10, todo=1, outcomes=outcomes), without_key=4)
    assert (found.keyed.total(), found.keyed[Outcome.FAILED], found.keyless.total()) == (6, 1, 3)


def test_counters_that_do_not_tell_which_unanswered_questions_have_a_key_give_no_accuracy_over_all() -> None:
    # Of those with a key, 150 of 250 are right, with 50 unanswered; of those without one, 50 are unanswered, too.
    outcomes = {Outcome.CORRECT: 150, Outcome.WRONG: 50, Outcome.UNANSWERED: 100, Outcome.ANSWERED: 200}
    found = Tally.of_counts(Counts(total=1000, todo=500, outcomes=outcomes), without_key=500).to_json()

    assert (found["accuracy_all"], found["without_key"]) == (None, None), "it is 0.6, and was given as 0.5"
    assert found["accuracy_answered"]["value"] == 0.75
    assert found["outcomes"]["unanswered"] == 100


def test_counters_that_do_not_tell_which_failed_questions_have_a_key_give_no_accuracy_without_those() -> None:
    # The one unanswered question, or one of the two failed ones, has no key.
    outcomes = {Outcome.CORRECT: 3, Outcome.WRONG: 1, Outcome.FAILED: 2, Outcome.ANSWERED: 1, Outcome.UNANSWERED: 1}
    found = Tally.of_counts(Counts(total=8, todo=0, outcomes=outcomes), without_key=2).to_json()
    assert found["accuracy_without_failed"] is None, "unknown: it was left out, as where no question failed"

    outcomes |= {Outcome.FAILED: 3, Outcome.UNANSWERED: 0}
    found = Tally.of_counts(Counts(total=8, todo=0, outcomes=outcomes), without_key=2).to_json()
    assert (found["accuracy_without_failed"]["right"], found["accuracy_without_failed"]["of"]) == (3, 4)


def test_counters_tell_which_failed_questions_have_a_key_where_all_without_a_choice_have_one_or_none_has() -> None:
    outcomes = {Outcome.CORRECT: 3, Outcome.FAILED: 1, Outcome.UNANSWERED: 1}
    found = Tally.of_counts(Counts(total=5, todo=0, outcomes=outcomes), without_key=2).to_json()
    assert (found["accuracy_all"]["right"], found["accuracy_all"]["of"]) == (3, 3)
    assert "accuracy_without_failed" not in found, "as where no question failed"

    found = Tally.of_counts(Counts(total=5, todo=0, outcomes=outcomes), without_key=0).to_json()
    assert (found["accuracy_without_failed"]["right"], found["accuracy_without_failed"]["of"]) == (3, 4)


def test_counters_of_a_run_in_which_no_answer_could_be_read_give_an_accuracy_of_zero() -> None:
    found = Tally.of_counts(Counts(total=4, todo=0, outcomes={Outcome.UNANSWERED: 4}), without_key=0).to_json()
    assert (found["accuracy_all"]["right"], found["accuracy_all"]["of"]) == (0, 4)
    found = Tally.of_counts(Counts(total=4, todo=0, outcomes={Outcome.UNANSWERED: 4}), without_key=1).to_json()
    assert (found["accuracy_all"]["right"], found["accuracy_all"]["of"]) == (0, 3)


def test_counters_that_do_not_tell_whether_all_with_a_key_failed_give_no_accuracy() -> None:
    # The unanswered question has no key, or one of the failed ones: then it is 0 of 2.
    outcomes = {Outcome.FAILED: 2, Outcome.UNANSWERED: 1}
    found = Tally.of_counts(Counts(total=3, todo=0, outcomes=outcomes), without_key=1).to_json()
    assert (found["accuracy_all"], found["without_key"], found["accuracy_without_failed"]) == (None, None, None)


def test_a_single_question_that_failed_is_no_accuracy() -> None:
    found = Tally()
    found.add(KEYED, Verdict(question_id="k", outcome=Outcome.FAILED))
    assert (found.all_failed, found.over_all()) == (True, None)


def test_nothing_settled_is_no_accuracy() -> None:
    assert Tally().to_json()["accuracy_all"] is None


def test_rates_are_of_all_that_is_settled_with_a_key_or_without() -> None:
    found = Tally()
    for outcome in (Outcome.CORRECT, Outcome.UNANSWERED, Outcome.FAILED):
        found.add(KEYED, Verdict(question_id="k", outcome=outcome, truncated=outcome is Outcome.CORRECT))
    found.add(KEYLESS, Verdict(question_id="l", outcome=Outcome.FAILED))
    found.add(KEYLESS, None)

    assert found.rates() == {
        "of": 4,
        "unanswered": 0.25,
        "failed": 0.5,
        "simulated": 0.0,
        "truncated": 0.25,
        "context_full": 0.0,
        "tied": 0.0,
    }


def test_rates_of_nothing_are_none() -> None:
    assert Tally().rates() == {
        "of": 0,
        "unanswered": None,
        "failed": None,
        "simulated": None,
        "truncated": None,
        "context_full": None,
        "tied": None,
    }
