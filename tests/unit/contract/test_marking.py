"""What an answer counts as, by what its question's file says."""

from __future__ import annotations

from typing import Any

import pytest

from contract.marking import hit, mark, mark_rotations
from contract.spec import IndexKind, Retrieval, RunSpec
from contract.verdict import Outcome, Passage
from tests.support import make_question, make_spec

CORRECT, WRONG, UNANSWERED, ANSWERED = Outcome.CORRECT, Outcome.WRONG, Outcome.UNANSWERED, Outcome.ANSWERED
WRITTEN_FOR_IT = Passage(id="p1", score=1.0, text="t", question_hash="ab12")


@pytest.mark.parametrize(
    ("key", "choice", "outcome"),
    [
        ({"answer": "A"}, "A", CORRECT),
        ({"answer": "A"}, "B", WRONG),
        ({"answer": "A", "also_right": ("B",)}, "B", CORRECT),
        ({"answer": "A"}, None, UNANSWERED),
        ({"answer": None}, None, UNANSWERED),
        ({"answer": None}, "A", ANSWERED),
    ],
)
def test_a_choice_is_marked_by_the_key_if_there_is_one(
    key: dict[str, Any], choice: str | None, outcome: Outcome
) -> None:
    assert mark(make_question(0, **key), choice) is outcome


@pytest.mark.parametrize(
    ("most_frequent", "right", "outcome"),
    [
        (CORRECT, 4, CORRECT),
        (CORRECT, 3, WRONG),
        (WRONG, 1, WRONG),
        (UNANSWERED, 1, UNANSWERED),
        (ANSWERED, 0, ANSWERED),
    ],
)
def test_of_rotations_all_must_be_right(most_frequent: Outcome, right: int, outcome: Outcome) -> None:
    assert mark_rotations(most_frequent, right, rotations=4) is outcome


def retrieving(**changes: Any) -> RunSpec:
    rag = Retrieval(index="facts", index_digest="0" * 64, kind=IndexKind.BM25, **changes)
    return make_spec(rag=rag, use_context_field=True)


def test_a_question_is_hit_by_a_passage_that_was_shown_and_not_by_one_that_did_not_fit() -> None:
    question = make_question(0, gold_passages=("p1",))
    not_shown = WRITTEN_FOR_IT.model_copy(update={"shown": False})
    assert hit(question, retrieving(), [WRITTEN_FOR_IT]) is True
    assert hit(question, retrieving(), [not_shown]) is False
    assert hit(question, retrieving(), []) is False


def test_a_question_for_which_nothing_was_retrieved_is_neither_hit_nor_missed() -> None:
    question = make_question(0, gold_passages=("p1",))
    assert hit(question, make_spec(), [WRITTEN_FOR_IT]) is None
    assert hit(question.model_copy(update={"context": "Its own."}), retrieving(), []) is None


def test_a_question_whose_hash_no_passage_could_have_is_neither_hit_nor_missed() -> None:
    question = make_question(0, metadata={"question_hash": "ab12"})
    assert hit(question, retrieving(question_hashes=True), [WRITTEN_FOR_IT]) is True
    assert hit(question, retrieving(question_hashes=True), []) is False
    assert hit(question, retrieving(), []) is None
