"""What the benchmark of intervals counts, and that its samples are what they are called."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.random import Generator, default_rng

from benchmarks.coverage import Case, Found, by_context, cases, difference_by_context, rates, summed_up, tried
from producer.stats import Interval


def case_of(*intervals: Interval, truth: float = 0.5, p_value: float | None = None) -> Case:
    """A case whose samples give `intervals`, one after another."""
    left = iter(intervals)
    return Case("accuracy_all", "made up", truth, lambda _: Found(next(left), p_value))


def test_samples_are_counted_that_hold_the_truth_and_those_that_lie_below_and_above_it() -> None:
    holds, below, above = Interval(0.5, 0.6), Interval(0.1, 0.4), Interval(0.6, 0.7)
    row = tried(case_of(holds, holds, below, above), 4, seed=0)
    assert (row["coverage"], row["below"], row["above"], row["significant"]) == (0.5, 0.25, 0.25, None)
    assert row["width"] == pytest.approx(0.15)


@pytest.mark.parametrize(("p_value", "significant"), [(0.049, 1.0), (0.05, 0.0)])
def test_a_difference_is_seen_where_its_p_value_is_below_the_level(p_value: float, significant: float) -> None:
    assert tried(case_of(Interval(0, 1), p_value=p_value), 1, seed=0)["significant"] == significant


@pytest.mark.parametrize("alike", [0.0, 0.1, 0.5, 1.0])
def test_two_questions_of_a_context_are_as_alike_as_the_case_says(alike: float) -> None:
    accuracies = rates(default_rng(0), 0.8, alike, 100_000)
    assert np.mean(accuracies) == pytest.approx(0.8, abs=0.005)
    assert np.var(accuracies) / (0.8 * 0.2) == pytest.approx(alike, abs=0.01)


def test_the_same_seed_draws_the_same_samples_and_another_one_others() -> None:
    case = by_context([5] * 20, 0.5, 0.8)
    assert tried(case, 20, seed=1) == tried(case, 20, seed=1) != tried(case, 20, seed=2)


def test_a_true_difference_is_found_more_often_than_one_that_is_none() -> None:
    found, alarms = (tried(difference_by_context([5] * 200, 0.1, apart), 20, 0)["significant"] for apart in (0.1, 0.0))
    assert found > 0.9 > 0.3 > alarms


def test_every_case_can_be_drawn_and_says_what_it_is() -> None:
    all_cases = list(cases())
    assert len({(each.figure, each.sample, each.truth) for each in all_cases}) == len(all_cases)
    chance: Generator = default_rng(0)
    for case in all_cases:
        found = case.draw(chance)
        assert -1 <= found.interval.low <= found.interval.high <= 1
        assert (found.p_value is not None) == case.figure.startswith("difference")


def test_a_figure_is_summed_up_by_its_worst_case_and_its_false_alarms_alone() -> None:
    rows = [
        {"figure": "difference", "sample": "few", "truth": 0.0, "coverage": 0.96, "significant": 0.04},
        {"figure": "difference", "sample": "many", "truth": 0.1, "coverage": 0.9, "significant": 0.8},
        {"figure": "accuracy_all", "sample": "all", "truth": 0.5, "coverage": 0.95, "significant": None},
    ]
    difference, accuracy = summed_up(rows)
    assert (difference["cases"], difference["lowest"], difference["most false alarms"]) == (2, 0.9, 0.04)
    assert difference["the lowest is of"] == "many, truth 0.1"
    assert (accuracy["lowest"], accuracy["most false alarms"]) == (0.95, "")
