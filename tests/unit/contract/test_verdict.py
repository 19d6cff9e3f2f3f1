"""A verdict goes through the ledger as JSON and comes back as it was."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from pydantic import ValidationError

from contract import Outcome, Passage, Verdict
from tests.unit.contract.strategies import verdicts

#: What a model leaves behind whose numbers overflowed.
BROKEN = Verdict(
    question_id="q",
    outcome=Outcome.WRONG,
    choice_scores={"A": float("nan"), "B": float("-inf")},
    margin=float("inf"),
    passages=(Passage(id="p", score=float("inf"), text=""),),
)


@given(verdicts())
@example(BROKEN)
def test_json_gives_back_the_same_verdict_even_where_scores_are_no_numbers(made: Verdict) -> None:
    for body in (made.model_dump_json(), made.model_dump_json(exclude_defaults=True)):
        assert repr(Verdict.model_validate_json(body)) == repr(made)


def test_a_question_can_end_in_five_ways_and_failing_is_not_being_wrong() -> None:
    assert [each.value for each in Outcome] == ["correct", "wrong", "unanswered", "failed", "answered"]


def test_what_nobody_knows_is_none_and_not_zero() -> None:
    plain = Verdict(question_id="q", outcome=Outcome.FAILED)
    assert (plain.choice, plain.confidence, plain.margin, plain.label_mass, plain.error) == (None,) * 5


@pytest.mark.parametrize(
    "body", ['{"question_id":"q","outcome":"right"}', '{"question_id":"q","outcome":"wrong","x":1}']
)
def test_what_a_newer_program_wrote_is_refused_and_not_half_read(body: str) -> None:
    with pytest.raises(ValidationError):
        Verdict.model_validate_json(body)
