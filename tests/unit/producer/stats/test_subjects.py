"""Figures over subjects: their mean, and the interval that takes them for a sample."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st
from scipy.stats import t as student

from producer.stats import Interval, Share, cluster_interval, macro, share
from producer.stats.subjects import macro_interval, recovered_interval


def subjects(*counted: tuple[int, int]) -> list[Share]:
    found = [share(right, of) for right, of in counted]
    return [each for each in found if each is not None]


def test_a_mean_of_figures_with_intervals_of_their_own_by_hand() -> None:
    found = recovered_interval([0.5, 0.7], [Interval(0.2, 0.6), Interval(0.3, 1.0)])

    # √(0.3² + 0.4²) / 2 = 0.25 below the mean, √(0.1² + 0.3²) / 2 = 0.158114 above it.
    assert (found.low, found.high) == pytest.approx((0.35, 0.758114), abs=1e-6)


def test_three_subjects_by_hand() -> None:
    found = cluster_interval(subjects((60, 100), (50, 100), (40, 100)))

    # Σ (r - 0.5 · 100)² = 10² + 0 + 10² = 200; √(3/2 · 200) / 300 = 0.057735; Student's t for two degrees of freedom
    # is 4.302653.
    assert found is not None
    assert (found.low, found.high) == pytest.approx((0.5 - 4.302653 * 0.057735, 0.5 + 4.302653 * 0.057735), abs=1e-6)


def test_a_large_subject_weighs_more() -> None:
    found = cluster_interval(subjects((200, 400), (60, 100), (40, 100), (55, 100), (65, 100), (35, 100)))

    # The figure is 455/900. By analysis of variance, the mean squares are 1.344444 between subjects and 0.244128 within
    # them, so that subjects have a variance of 1.100317 / 133.333 = 0.008252. The standard error of the figure is
    # √(900 · 0.244128 + (400² + 5 · 100²) · 0.008252) / 900 = 0.049099, and Student's t 2.570582.
    assert found is not None
    assert (found.low, found.high) == pytest.approx((0.505556 - 0.126214, 0.505556 + 0.126214), abs=1e-5)


@pytest.mark.parametrize("counted", [[], [(3, 4)]], ids=["none", "one"])
def test_fewer_than_two_subjects_are_no_sample(counted: list[tuple[int, int]]) -> None:
    assert cluster_interval(subjects(*counted)) is None


@pytest.mark.parametrize(
    ("counted", "as_many"),
    [([(10, 20), (10, 20)], (1, 2)), ([(8, 8)] * 2, (2, 2)), ([(3, 3)] * 40, (40, 40)), ([(1, 1)] * 2, (2, 2))],
    ids=["half right", "all right", "many", "one question each"],
)
def test_subjects_that_happen_to_be_equal_tell_no_more_than_as_many_questions(
    counted: list[tuple[int, int]], as_many: tuple[int, int]
) -> None:
    found, alone = cluster_interval(subjects(*counted)), share(*as_many)

    assert found is not None
    assert alone is not None
    assert (found.low, found.high) == pytest.approx((alone.low, alone.high))


@pytest.mark.parametrize("count", [2, 3, 5, 20])
def test_of_a_hundred_samples_of_subjects_about_95_hold_the_true_accuracy_however_few_the_subjects(count: int) -> None:
    generator = np.random.default_rng(11)
    held = 0
    for _ in range(1000):
        right = generator.binomial(40, generator.beta(6, 6, size=count))
        found = cluster_interval(subjects(*((int(each), 40) for each in right)))
        assert found is not None
        held += found.low <= 0.5 <= found.high

    assert held > 930, "drawing whole subjects with replacement held it in 540 of 1,000 where there were two"


counts = st.integers(1, 50).flatmap(lambda of: st.tuples(st.integers(0, of), st.just(of)))


@given(st.lists(counts, min_size=2, max_size=8))
@examples(max_examples=50)
def test_the_interval_contains_the_accuracy_and_what_the_sandwich_of_a_regression_says(
    counted: list[tuple[int, int]],
) -> None:
    found = cluster_interval(subjects(*counted))

    right, of = (np.array(each, dtype=float) for each in zip(*counted, strict=True))
    accuracy, groups = right.sum() / of.sum(), len(counted)
    # The sandwich of a regression on nothing but a constant, with the factor G / (G - 1).
    error = math.sqrt(groups / (groups - 1) * float(((right - accuracy * of) ** 2).sum())) / of.sum()
    assert found is not None
    assert 0 <= found.low <= accuracy + 1e-12
    assert accuracy - 1e-12 <= found.high <= 1
    assert found.high >= min(1.0, accuracy + student.ppf(0.975, groups - 1) * error) - 1e-9


def test_the_macro_mean_weighs_each_subject_the_same() -> None:
    assert macro(subjects((0, 10), (1, 1))) == 0.5


def test_the_interval_of_the_macro_mean_by_hand() -> None:
    found = macro_interval(subjects((49, 98), (7, 8)))

    # One right and one wrong answer more in each: 50 of 100 and 8 of 10. Their mean is 0.65, and √(0.5² / 99 + 0.8 ·
    # 0.2 / 9) / 2 = 0.071244 its standard error.
    assert (found.low, found.high) == pytest.approx((0.65 - 1.959964 * 0.071244, 0.65 + 1.959964 * 0.071244), abs=1e-5)


def test_subjects_of_one_question_count_as_one_subject_in_the_interval_of_the_macro_mean() -> None:
    """Each by itself, their answers seem never to vary: of 57 such subjects, the interval held it in 58 to 69 %."""
    ones = subjects(*[(1, 1)] * 30, *[(0, 1)] * 20)
    assert macro_interval(ones) == macro_interval(subjects((30, 50)))

    # As much as 50 of 51 subjects: with one right and one wrong answer more in each, 31 of 52 and 8 of 10.
    found = macro_interval([*ones, *subjects((7, 8))])
    middle = (50 * 31 / 52 + 0.8) / 51
    error = math.sqrt((50 / 51) ** 2 * 31 / 52 * 21 / 52 / 51 + (1 / 51) ** 2 * 0.8 * 0.2 / 9)
    assert (found.low, found.high) == pytest.approx((middle - 1.959964 * error, middle + 1.959964 * error), abs=1e-5)


def test_where_all_is_wrong_the_interval_of_the_macro_mean_begins_at_0_and_is_no_point() -> None:
    found = macro_interval(subjects((0, 8), (0, 5)))
    assert found.low == 0.0
    assert found.high > 0.15


def test_where_all_is_right_the_interval_of_the_macro_mean_is_no_point() -> None:
    found = macro_interval(subjects((8, 8), (5, 5)))
    assert found.low < 0.85
    assert found.high == 1.0


@pytest.mark.parametrize(
    "truth",
    [
        ((0.5, 20), (0.5, 20)),
        ((0.9, 30), (0.3, 400), (0.6, 8)),
        ((0.97, 40),) * 20,
        ((0.25, 100), (0.99, 100)),
        ((0.98, 20), (0.98, 20)),
        ((0.3, 2),) * 57,
        tuple((0.2 + 0.01 * at, 1 + at % 5) for at in range(57)),
        ((0.6, 1),) * 57,
    ],
    ids=["equal", "unlike", "nearly all right", "far apart", "small", "tiny", "a sample of MMLU", "of one question"],
)
def test_of_a_hundred_samples_of_questions_about_95_hold_the_true_macro_mean(
    truth: tuple[tuple[float, int], ...],
) -> None:
    generator = np.random.default_rng(5)
    mean = sum(p for p, _ in truth) / len(truth)
    held = 0
    for _ in range(2000):
        found = macro_interval(subjects(*((int(generator.binomial(n, p)), n) for p, n in truth)))
        held += found.low <= mean <= found.high

    assert 1850 <= held <= 1990, "Wilson's intervals put together held it in 1,750 where nearly all was right"
