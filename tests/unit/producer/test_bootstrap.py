"""Figures over subjects: their mean, and the interval that takes them for a sample."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import bootstrap

from producer.stats import Share, cluster_interval, macro, share


def subjects(*counted: tuple[int, int]) -> list[Share]:
    found = [share(right, of) for right, of in counted]
    return [each for each in found if each is not None]


def test_two_subjects_by_hand() -> None:
    found = cluster_interval(subjects((1, 4), (3, 4)))

    # Of the four equally likely resamples one is (1/4, 1/4) and one (3/4, 3/4): each is more than 2.5 % of them.
    assert found is not None
    assert (found.low, found.high) == (0.25, 0.75)


def test_a_large_subject_weighs_more() -> None:
    found = cluster_interval(subjects((0, 10), (1, 1)))

    # Resamples: 0/20, twice 1/11, 2/2. The figure itself is 1/11, not the mean of 0 and 1.
    assert found is not None
    assert (found.low, found.high) == (0.0, 1.0)


@pytest.mark.parametrize("counted", [[], [(3, 4)]], ids=["none", "one"])
def test_fewer_than_two_subjects_are_no_sample(counted: list[tuple[int, int]]) -> None:
    assert cluster_interval(subjects(*counted)) is None


def test_the_same_subjects_give_the_same_interval() -> None:
    sample = subjects((3, 7), (5, 9), (1, 8), (6, 6))

    assert cluster_interval(sample) == cluster_interval(sample)


def test_the_interval_is_scipys() -> None:
    generator = np.random.default_rng(7)
    of = generator.integers(20, 200, size=40)
    right = generator.binomial(of, generator.beta(4, 4, size=40))

    def accuracy(right: NDArray[np.int64], of: NDArray[np.int64], axis: int) -> NDArray[np.float64]:
        return np.asarray(right.sum(axis=axis) / of.sum(axis=axis))

    theirs = bootstrap(
        (right, of), accuracy, paired=True, method="percentile", n_resamples=20_000, rng=1
    ).confidence_interval
    ours = cluster_interval(subjects(*zip(right.tolist(), of.tolist(), strict=True)))

    assert ours is not None
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=0.005)


counts = st.integers(1, 50).flatmap(lambda of: st.tuples(st.integers(0, of), st.just(of)))


@given(st.lists(counts, min_size=2, max_size=8))
@examples(deadline=None, max_examples=25)
def test_the_interval_contains_the_accuracy(counted: list[tuple[int, int]]) -> None:
    found = cluster_interval(subjects(*counted))

    assert found is not None
    accuracy = sum(right for right, _ in counted) / sum(of for _, of in counted)
    assert 0 <= found.low <= accuracy + 1e-12
    assert accuracy - 1e-12 <= found.high <= 1


def test_the_macro_mean_weighs_each_subject_the_same() -> None:
    assert macro(subjects((0, 10), (1, 1))) == 0.5
    assert macro([]) is None
