"""Calibration: ECE, its histogram and the Brier score, against numpy and against sums done by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import softmax

from contract.mode import Mode, Normalization
from contract.question import Question
from contract.spec import Sampling
from contract.verdict import Outcome, Verdict
from producer.stats import Calibration
from producer.stats.calibration import EDGES, PROBABILITIES, confidence_of, probabilities
from tests.support import make_spec

QUESTION = Question(id="q", question="q", choices=("a", "b", "c"), answer="B")


def answered(confidence: float | None, *, right: bool, scores: dict[str, float] | None = None) -> Verdict:
    outcome = Outcome.CORRECT if right else Outcome.WRONG
    return Verdict(question_id="q", outcome=outcome, confidence=confidence, choice_scores=scores or {})


def calibrated(*verdicts: Verdict, question: Question = QUESTION) -> Calibration:
    found = Calibration()
    for verdict in verdicts:
        found.add(question, verdict)
    return found


def logs(*shares: float) -> dict[str, float]:
    return dict(zip("ABC", map(math.log, shares), strict=True))


def test_ece_by_hand() -> None:
    found = calibrated(
        answered(0.95, right=True),
        answered(0.91, right=False),
        answered(0.35, right=True),
        answered(0.40, right=False),
    )

    # Bin 0.9 to 1.0: accuracy 1/2, mean confidence 0.93, gap 0.43. Bin 0.3 to 0.4, which holds its upper bound:
    # accuracy 1/2, mean confidence 0.375, gap 0.125. ECE = 2/4 · 0.43 + 2/4 · 0.125 = 0.2775.
    assert found.ece() == pytest.approx(0.2775)
    bins = found.to_json()["bins"]
    assert bins[3] == {"low": 0.3, "high": 0.4, "count": 2, "confidence": 0.375, "accuracy": 0.5}
    assert bins[9] == {"low": 0.9, "high": 1.0, "count": 2, "confidence": 0.93, "accuracy": 0.5}
    assert bins[0] == {"low": 0.0, "high": 0.1, "count": 0, "confidence": None, "accuracy": None}


def test_the_probability_of_the_key_is_that_of_all_right_choices_together() -> None:
    several = QUESTION.model_copy(update={"also_right": ("C",)})
    found = calibrated(answered(None, right=True, scores=logs(0.2, 0.7, 0.1)), question=several)
    found.add(QUESTION, answered(None, right=False, scores=logs(0.6, 0.3, 0.1)))
    found.add(QUESTION, answered(0.5, right=True))  # of the other choices nothing is known

    told = found.to_json()["key_probability"]
    assert (told["value"], told["of"]) == (pytest.approx((0.8 + 0.3) / 2), 2)
    both = calibrated()
    both.include(found)
    assert both.key_probability() == found.key_probability()
    assert found.distributions == 1, "of several right choices none has the ideal distribution: no Brier score"
    assert found.brier() == pytest.approx(0.6**2 + 0.7**2 + 0.1**2)
    assert calibrated().to_json()["key_probability"] is None


def test_brier_by_hand() -> None:
    found = calibrated(
        answered(None, right=True, scores=logs(0.2, 0.7, 0.1)),
        answered(None, right=False, scores=logs(0.6, 0.3, 0.1)),
    )

    # B is the key. 0.2² + (0.7 - 1)² + 0.1² = 0.04 + 0.09 + 0.01 = 0.14, and 0.6² + (0.3 - 1)² + 0.1² = 0.36 + 0.49 +
    # 0.01 = 0.86; their mean is 0.5.
    assert found.brier() == pytest.approx(0.5)
    assert found.ece() is None, "nobody claimed anything"


@pytest.mark.parametrize(
    ("scores", "brier"),
    [
        ({"A": -math.inf, "B": -1.0, "C": -math.inf}, 0.0),
        ({"A": -1.0, "B": -math.inf, "C": -math.inf}, 2.0),
        ({"A": -700.0, "B": -700.0, "C": -700.0}, 2 / 3),  # (1/3)² + (2/3)² + (1/3)² = 6/9
    ],
    ids=["sure and right", "sure and wrong", "no idea"],
)
def test_the_brier_score_goes_from_0_to_2(scores: dict[str, float], brier: float) -> None:
    assert calibrated(answered(None, right=True, scores=scores)).brier() == pytest.approx(brier)


@pytest.mark.parametrize(
    ("shares", "brier"),
    [
        ({"A": 0.0, "B": 1.0, "C": 0.0}, 0.0),
        ({"A": 1.0, "B": 0.0, "C": 0.0}, 2.0),
        ({"A": 0.2, "B": 0.6, "C": 0.0}, 0.2),  # one text of five named nothing: 0.2² + (0.6 - 1)² + 0² = 0.2
    ],
    ids=["all texts are right", "all texts are wrong", "three of five are right"],
)
def test_shares_of_a_vote_are_probabilities_and_not_logarithms_of_them(shares: dict[str, float], brier: float) -> None:
    vote = answered(None, right=True, scores=shares).model_copy(update={"rule": "majority"})

    assert calibrated(vote).brier() == pytest.approx(brier)


def test_in_a_circular_run_confidence_is_held_against_the_choice_not_against_all_rotations() -> None:
    # Chosen in three of four rotations: the question counts as wrong, the choice that is so sure is right all the same.
    circular = answered(0.9, right=False).model_copy(update={"choice": "B", "rotations": 4, "rotations_right": 3})

    assert calibrated(circular).ece() == pytest.approx(0.1)


@pytest.mark.parametrize("edge", EDGES[1:])
def test_a_bin_holds_its_upper_bound(edge: float) -> None:
    (filled,) = [each for each in calibrated(answered(edge, right=True)).to_json()["bins"] if each["count"]]

    assert filled["high"] == edge


def test_a_confidence_of_0_is_in_the_first_bin() -> None:
    assert calibrated(answered(0.0, right=False)).bins[0].count == 1


@pytest.mark.parametrize("mode", [Mode.GENERATE, Mode.FREE])
def test_of_a_single_text_no_confidence_is_described(mode: Mode) -> None:
    assert confidence_of(make_spec([QUESTION], mode=mode, sampling=Sampling())).startswith("none")


@pytest.mark.parametrize("circular", [False, True])
def test_a_confidence_that_is_no_probability_of_the_model_is_not_called_one(*, circular: bool) -> None:
    votes = {"mode": Mode.VOTE, "sampling": Sampling(samples=3, temperature=1.0)}
    found = [
        confidence_of(make_spec([QUESTION], circular=circular, **spec))
        for spec in (votes, {"normalization": Normalization.BYTE}, {"normalization": Normalization.NONE})
    ]
    assert found[0].startswith("the fraction of the texts, not a model probability")
    assert found[1].startswith("the softmax of scores per byte, not a model probability")
    assert found[2].startswith(PROBABILITIES)
    assert ["first rotation" in each for each in found] == [circular] * 3


@pytest.mark.parametrize("outcome", [Outcome.UNANSWERED, Outcome.FAILED, Outcome.ANSWERED])
def test_only_answers_that_can_be_checked_are_in_it(outcome: Outcome) -> None:
    verdict = Verdict(question_id="q", outcome=outcome, confidence=0.5, choice_scores=logs(0.2, 0.7, 0.1))

    found = calibrated(verdict)

    assert (found.of, found.distributions) == (0, 0)


def test_questions_without_a_key_are_not_in_it() -> None:
    keyless = Question(id="q", question="q", choices=("a", "b", "c"))

    assert calibrated(answered(0.5, right=True), question=keyless) == Calibration()


@pytest.mark.parametrize(
    "scores",
    [
        {},
        {"A": -1.0, "B": -1.0},
        {"A": -1.0, "B": math.nan, "C": -1.0},
        {"A": -1.0, "B": math.inf, "C": -1.0},
        dict.fromkeys("ABC", -math.inf),
    ],
    ids=["none", "one missing", "NaN", "infinite", "nothing is possible"],
)
def test_scores_that_are_no_distribution_are_left_out_of_brier(scores: dict[str, float]) -> None:
    found = calibrated(answered(0.5, right=True, scores=scores))

    assert (found.of, found.distributions, found.brier()) == (1, 0, None)


def test_a_confidence_that_is_no_number_is_left_out_of_ece() -> None:
    assert calibrated(answered(math.nan, right=True)).of == 0


def test_nothing_has_no_calibration() -> None:
    content = Calibration().to_json()

    assert (content["ece"], content["brier"], content["of"], content["brier_of"]) == (None, None, 0, 0)


claims = st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=60)
triples = st.lists(st.floats(-50, 0), min_size=3, max_size=3)


@given(claims)
def test_ece_is_numpys_and_between_0_and_1(claimed: list[tuple[float, bool]]) -> None:
    found = calibrated(*(answered(confidence, right=right) for confidence, right in claimed)).ece()

    confidences, rights = np.array([each[0] for each in claimed]), np.array([each[1] for each in claimed])
    into = np.digitize(confidences, EDGES[1:-1], right=True)
    gaps = [
        (into == at).mean() * abs(rights[into == at].mean() - confidences[into == at].mean()) for at in np.unique(into)
    ]
    assert found is not None
    assert 0 <= found <= 1
    assert found == pytest.approx(sum(gaps), abs=1e-12)


@given(st.lists(triples, min_size=1, max_size=20))
def test_brier_is_scipys_softmax_against_the_key_and_between_0_and_2(scored: list[list[float]]) -> None:
    found = calibrated(
        *(answered(None, right=True, scores=dict(zip("ABC", each, strict=True))) for each in scored)
    ).brier()

    expected = ((softmax(np.array(scored), axis=1) - np.array([0, 1, 0])) ** 2).sum(axis=1).mean()
    assert found is not None
    assert 0 <= found <= 2
    assert found == pytest.approx(expected, abs=1e-12)


@given(triples)
def test_probabilities_sum_to_one(scores: list[float]) -> None:
    assert sum(probabilities("ABC", dict(zip("ABC", scores, strict=True)))) == pytest.approx(1.0)
