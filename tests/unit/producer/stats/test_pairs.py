"""Two runs question by question: the difference, McNemar's test, and what could have been found."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.stats import binom, bootstrap, norm

from producer.stats import Pairs
from producer.stats.paired import holm
from tests.support import ROOT


def test_the_difference_is_b_minus_a() -> None:
    pairs = Pairs(both=5, only_a=1, only_b=3, neither=1)

    assert (pairs.of, pairs.discordant) == (10, 4)
    assert (pairs.accuracy_a.value, pairs.accuracy_b.value) == (0.6, 0.8)
    assert pairs.difference == pytest.approx(0.2)


def test_mcnemar_by_hand() -> None:
    # Six discordant pairs, one of them for A: no head in six throws 1/64, one head 6/64, of which mid-p counts half.
    assert Pairs(both=10, only_a=1, only_b=5, neither=4).p_value() == pytest.approx(2 * (1 + 6 / 2) / 64)
    # Three of six, of which the probability is 20/64: all other outcomes are further from the middle.
    assert Pairs(both=10, only_a=3, only_b=3, neither=4).p_value() == pytest.approx(1 - 20 / 64 / 2)


def test_the_p_values_of_what_passages_are_worth_are_those_of_the_questions_beside_them() -> None:
    page = (ROOT / "docs" / "measured.md").read_text(encoding="utf-8")
    found = re.findall(r"\| (\d+) / (\d+) \| (\S+) \|$", page, flags=re.MULTILINE)

    assert len(found) > 5
    for repaired, broken, told in found:
        assert told == f"{Pairs(0, int(broken), int(repaired), 0).p_value():.2g}"


def test_test_and_interval_seldom_disagree_on_there_being_a_difference() -> None:
    tables = [Pairs(60 - a - b, a, b, 40) for a in range(30) for b in range(a, 30)]
    exact = [min(1.0, 2 * binom.cdf(each.only_a, each.discordant, 0.5)) for each in tables]

    found = [each.interval().low > 0 for each in tables]

    assert sum(real != (each.p_value() < 0.05) for real, each in zip(found, tables, strict=True)) < 5
    assert sum(real != (p < 0.05) for real, p in zip(found, exact, strict=True)) > 12, "the exact test often does"


def test_mcnemar_does_not_care_which_run_is_called_a() -> None:
    assert Pairs(10, 2, 9, 4).p_value() == pytest.approx(Pairs(10, 9, 2, 4).p_value())


def test_runs_that_never_disagree_do_not_differ() -> None:
    pairs = Pairs(both=3, only_a=0, only_b=0, neither=2)

    assert (pairs.p_value(), pairs.difference, pairs.detectable()) == (1.0, 0.0, None)


def test_the_interval_by_hand() -> None:
    # 9 / 102 only A, 21 / 102 only B: 12/102 ± 1.95996 · √((30/102 - (12/102)²) / 102) = 0.117647 ± 0.102741.
    found = Pairs(both=30, only_a=8, only_b=20, neither=42).interval()

    assert (found.low, found.high) == pytest.approx((0.014906, 0.220388), abs=1e-6)


def test_with_many_pairs_the_interval_is_that_of_scipy_drawing_the_pairs_themselves() -> None:
    pairs = Pairs(both=1200, only_a=200, only_b=350, neither=250)
    differences = np.repeat([0, -1, 1], [pairs.both + pairs.neither, pairs.only_a, pairs.only_b])

    theirs = bootstrap(
        (differences,), np.mean, method="percentile", n_resamples=20_000, batch=1000, rng=1
    ).confidence_interval
    ours = pairs.interval()

    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=0.002)


def test_runs_that_never_disagreed_on_twenty_questions_may_differ_all_the_same() -> None:
    found = Pairs(both=12, only_a=0, only_b=0, neither=8).interval()

    assert found.low == -found.high
    assert 0.1 < found.high < 0.2, "a difference of 0.1 shows on none of twenty questions in 12 % of the cases"


@pytest.mark.parametrize(
    ("n", "only_a", "only_b"), [(10, 0.01, 0.03), (30, 0.0, 0.02), (100, 0.0, 0.02), (160, 0.01, 0.03), (200, 0.1, 0.2)]
)
def test_of_a_hundred_comparisons_about_95_hold_the_true_difference_however_few_pairs_disagree(
    n: int, only_a: float, only_b: float
) -> None:
    drawn = np.random.default_rng(5).multinomial(n, [only_a, only_b, 1 - only_a - only_b], size=2000).tolist()
    found = [Pairs(same, a, b, 0).interval() for a, b, same in drawn]

    held = sum(each.low <= only_b - only_a <= each.high for each in found)

    assert held > 0.94 * 2000, "drawing pairs held it in 19 % to 95 % of these"


def test_the_detectable_difference_by_hand() -> None:
    # ψ = 0.5, n = 100: √0.5 · (1.95996 · 10 + 0.84162 · √(100 + 0.70833 - 3.84146)) / 100.70833 = 0.195776
    assert Pairs(both=25, only_a=20, only_b=30, neither=25).detectable() == pytest.approx(0.195776, abs=1e-6)


def test_the_number_of_pairs_that_the_tests_check_against_is_connors() -> None:
    # The example of the sample size calculators, discordant shares 0.45 and 0.05: ((1.95996 · √0.5 + 0.84162 ·
    # √(0.5 - 0.16)) / 0.4)² = (1.87664 / 0.4)² = 22.01, so 23 pairs.
    assert needed(0.5, 0.4) == pytest.approx(22.01, abs=0.005)


@pytest.mark.parametrize(("pairs", "discordant"), [(50, 25), (100, 8), (137, 55), (1000, 200), (5000, 2500)])
def test_the_test_finds_the_detectable_difference_about_as_often_as_is_said(pairs: int, discordant: int) -> None:
    delta = Pairs(0, discordant, 0, pairs - discordant).detectable()
    assert delta is not None
    share = discordant / pairs

    power = 0.0
    for count in range(pairs + 1):
        weight = binom.pmf(count, pairs, share)
        if weight < 1e-9:
            continue
        # The test rejects where so few of `count` discordant pairs, or fewer, are on one side.
        likely = int(binom.ppf(0.025, count, 0.5))
        rejected = max((few for few in (likely - 1, likely, likely + 1) if significant(few, count)), default=-1)
        better = (share + delta) / (2 * share)
        power += weight * (binom.cdf(rejected, count, better) + binom.sf(count - rejected - 1, count, better))

    assert 0.80 <= power <= (0.81 if discordant > 10 else 0.89)


def significant(few: int, discordant: int) -> bool:
    return 0 <= few <= discordant and Pairs(0, few, discordant - few, 0).p_value() < 0.05


@pytest.mark.parametrize(
    "pairs",
    [Pairs(0, 3, 0, 0), Pairs(100, 1, 0, 0)],
    ids=["fewer than four pairs", "a difference would exceed the discordance"],
)
def test_with_too_little_to_go_by_nothing_is_detectable(pairs: Pairs) -> None:
    assert pairs.detectable() is None
    assert pairs.to_json()["minimum_detectable_effect"]["value"] is None


tables = st.tuples(*[st.integers(0, 200)] * 4).filter(any).map(lambda cells: Pairs(*cells))


@given(tables)
@example(Pairs(0, 5, 0, 0))
@example(Pairs(0, 0, 5, 0))
def test_the_interval_contains_the_difference(pairs: Pairs) -> None:
    found = pairs.interval()

    assert -1 <= found.low <= pairs.difference + 1e-12
    assert pairs.difference - 1e-12 <= found.high <= 1


@given(tables)
def test_p_is_a_probability_and_the_detectable_difference_is_possible(pairs: Pairs) -> None:
    assert 0 < pairs.p_value() <= 1
    smallest = pairs.detectable()
    if smallest is not None:
        psi = pairs.discordant / pairs.of
        assert 0 < smallest <= psi
        assert needed(psi, smallest) == pytest.approx(pairs.of), "so many pairs are what it needs"


def needed(psi: float, delta: float) -> float:
    """Connor's number of pairs."""
    z_alpha, z_beta = norm.ppf(0.975), norm.ppf(0.8)
    return float(((z_alpha * math.sqrt(psi) + z_beta * math.sqrt(psi - delta**2)) / delta) ** 2)


def test_tests_that_are_looked_at_together_each_have_to_be_surer() -> None:
    # By hand, from the smallest on: 3 · 0.01, 2 · 0.02 and 1 · 0.03, which is not let below the one before it.
    assert holm([0.02, 0.01, 0.03]) == pytest.approx([0.04, 0.03, 0.04])
    assert holm([0.6, 0.9]) == pytest.approx([1.0, 1.0]), "no p is above one"
    assert holm([0.03]) == [0.03]
    assert holm([]) == []


def test_where_no_run_is_better_one_report_in_twenty_says_so_of_any() -> None:
    generator = np.random.default_rng(4)
    alone = together = 0
    for _ in range(400):
        right = generator.random((6, 200)) < 0.5
        pairs = [
            Pairs(int((right[0] & b).sum()), int((right[0] & ~b).sum()), int((~right[0] & b).sum()), 0)
            for b in right[1:]
        ]
        found = [each.p_value() for each in pairs]
        alone += min(found) < 0.05
        together += min(holm(found)) < 0.05

    assert alone > 44, "five looks have more than one chance in ten"
    assert together < 24
