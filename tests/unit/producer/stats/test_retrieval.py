"""What retrieval did, each figure against an example worked out by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contract.question import Question
from contract.relevance import sources_of
from contract.spec import IndexKind, Retrieval
from contract.verdict import ContextSource, Failure, Outcome, Passage, Verdict
from producer.stats import Mean, RetrievalTally, Share
from producer.stats.retrieval import average_precision

CHOICES = ("iron", "lead", "zinc", "gold")
Figure = Share | Mean | None


def tally(top_k: int = 5, **more: Any) -> RetrievalTally:
    return RetrievalTally.of(
        Retrieval(index="facts", index_digest="0" * 64, kind=IndexKind.BM25, retrieval_top_k=top_k, **more)
    )


def question(**fields: Any) -> Question:
    """A question with the key A, iron."""
    return Question.model_validate({"id": "q", "question": "Which?", "choices": CHOICES, "answer": "A"} | fields)


def passages(ids: str, hidden: str = "") -> tuple[Passage, ...]:
    """One passage per letter of `ids`, best first; those in `hidden` are not shown."""
    return tuple(
        Passage(id=each, score=1 / rank, text=f"text of {each}", rank=rank, shown=each not in hidden)
        for rank, each in enumerate(ids, 1)
    )


def searched(asked: Question, found: Sequence[Passage], outcome: Outcome = Outcome.CORRECT) -> Verdict:
    """The verdict of a question for which `found` was retrieved, as a worker writes it."""
    return Verdict(
        question_id=asked.id,
        outcome=outcome,
        context_source=ContextSource.RETRIEVED if any(each.shown for each in found) else ContextSource.NONE,
        passages=tuple(found),
        retrieval_hit=sources_of(asked).hit([each for each in found if each.shown]),
    )


def value(figure: Figure) -> float:
    assert figure is not None
    return figure.value


def test_recall_by_hand() -> None:
    found = tally(top_k=5)
    # Right passages at ranks 2 and 4, of three; at rank 1, of one; and nowhere.
    for gold, ids in (("bdz", "abcde"), ("a", "abcde"), ("z", "abcde")):
        asked = question(gold_passages=tuple(gold))
        found.add(asked, searched(asked, passages(ids)))

    any_within, share_within = found.recall_any(), found.recall_share()

    assert {depth: each.right for depth, each in any_within.items()} == {1: 1, 3: 2, 5: 2}
    assert {each.of for each in any_within.values()} == {3}
    assert {depth: each.value for depth, each in share_within.items()} == pytest.approx(
        {1: (0 + 1 + 0) / 3, 3: (1 / 3 + 1 + 0) / 3, 5: (2 / 3 + 1 + 0) / 3}
    )


@pytest.mark.parametrize(
    ("top_k", "depths"), [(1, (1,)), (2, (1, 2)), (3, (1, 3)), (10, (1, 3, 5, 10)), (50, (1, 3, 5, 10, 50))]
)
def test_recall_is_told_as_far_down_as_was_retrieved(top_k: int, depths: tuple[int, ...]) -> None:
    assert tally(top_k).depths == depths


@pytest.mark.parametrize("named", [{"source_id": "doc"}, {"source_path": "a.md"}, {"question_hash": "ab12"}])
def test_a_source_that_is_no_list_of_passages_has_recall_of_any_and_of_no_share(named: dict[str, str]) -> None:
    found = tally(question_hashes=True)
    asked = question(metadata=named)
    right = Passage(id="doc-1", score=1.0, text="t", document="doc", path="a.md", question_hash="ab12")
    found.add(asked, searched(asked, [*passages("x"), right]))

    assert {depth: each.value for depth, each in found.recall_any().items()} == {1: 0, 3: 1, 5: 1}
    assert found.recall_share() == {}
    assert value(found.mrr()) == 1 / 2


def test_the_mean_reciprocal_rank_by_hand() -> None:
    found = tally()
    for gold in ("a", "d", "ce", "z"):
        asked = question(gold_passages=tuple(gold))
        found.add(asked, searched(asked, passages("abcde")))

    assert value(found.mrr()) == pytest.approx((1 + 1 / 4 + 1 / 3 + 0) / 4)


def test_what_had_no_room_was_found_all_the_same() -> None:
    found = tally()
    asked = question(gold_passages=("c",))
    found.add(asked, searched(asked, passages("abc", hidden="c"), Outcome.WRONG))

    assert value(found.mrr()) == pytest.approx(1 / 3)
    assert value(found.context_precision()) == 0
    assert found.accuracy(hit=True) is None
    assert value(found.accuracy(hit=False)) == 0
    assert found.to_json()["passages"] == {
        "of": 1,
        "mean_retrieved": 3,
        "mean_shown": 2,
        "questions_without_room_for_all": 1,
    }


@pytest.mark.parametrize(
    ("ranking", "expected"),
    [("1", 1), ("0", 0), ("", 0), ("10", 1), ("01", 1 / 2), ("110", 1), ("1011", (1 + 2 / 3 + 3 / 4) / 3)],
)
def test_context_precision_of_one_question_by_hand(ranking: str, expected: float) -> None:
    assert average_precision([each == "1" for each in ranking]) == pytest.approx(expected)


def test_accuracy_is_told_apart_by_whether_a_right_passage_was_shown() -> None:
    found = tally()
    right = question(gold_passages=("a",))
    for outcome in (Outcome.CORRECT, Outcome.CORRECT, Outcome.WRONG, Outcome.UNANSWERED):
        found.add(right, searched(right, passages("ab"), outcome))
    missed = question(gold_passages=("z",))
    for outcome in (Outcome.CORRECT, Outcome.WRONG, Outcome.FAILED):
        found.add(missed, searched(missed, passages("ab"), outcome))
    unnamed = question()
    found.add(unnamed, searched(unnamed, passages("ab")))

    with_it, without_it = found.accuracy(hit=True), found.accuracy(hit=False)
    assert with_it is not None
    assert without_it is not None
    assert (with_it.right, with_it.of) == (2, 4), "unanswered is not right"
    assert (without_it.right, without_it.of) == (1, 2), "failed says nothing of the passages"


def test_the_right_choice_in_the_context_is_held_against_the_wrong_ones() -> None:
    found = tally()
    asked = question()
    for texts in (("Iron rusts.", "Neither lead nor zinc does."), ("Gold shines.", "x"), ("x", "y")):
        shown = [Passage(id=each, score=1.0, text=each) for each in texts]
        hidden = Passage(id="h", score=0.5, text="iron, lead, zinc and gold", shown=False)
        found.add(asked, searched(asked, [*shown, hidden]))
    keyless = question(answer=None)
    found.add(keyless, searched(keyless, [Passage(id="p", score=1.0, text="lead")], Outcome.ANSWERED))

    right, wrong = found.answer_in_context(), found.wrong_choice_in_context()
    assert right is not None
    assert wrong is not None
    assert (right.right, right.of) == (1, 3)
    assert wrong.value == pytest.approx((2 / 3 + 1 / 3 + 0) / 3)
    assert wrong.of == 3


def test_of_several_right_choices_one_in_the_context_is_enough() -> None:
    found, asked = tally(), question(also_right=("C",))
    found.add(asked, searched(asked, [Passage(id="p", score=1.0, text="Iron rusts.")]))
    assert value(found.answer_in_context()) == 1.0


def test_a_retrieval_that_failed_is_counted_apart_and_misses_nothing() -> None:
    found = tally()
    asked = question(gold_passages=("a",))
    error = Failure(type="IndexUnusable", message="corrupt")
    found.add(asked, Verdict(question_id="q", outcome=Outcome.FAILED, error=error))

    content = found.to_json()
    assert content["failed_without_passages"] == 1
    assert content["context_sources"] == {"none": 0, "question": 0, "retrieved": 0}
    assert (content["recall_any"], content["recall_share"]) == ({}, {})
    assert (content["mrr"], content["context_precision"], content["answer_in_context"]) == (None, None, None)
    assert content["passages"]["mean_shown"] is None


def test_a_model_that_failed_takes_nothing_from_what_retrieval_found() -> None:
    found = tally()
    asked = question(gold_passages=("a",))
    found.add(asked, searched(asked, passages("ab"), Outcome.FAILED))

    assert (found.failed, value(found.mrr())) == (0, 1)
    assert found.accuracy(hit=True) is None


def test_a_search_that_found_nothing_is_a_miss_also_where_the_model_failed_afterwards() -> None:
    found = tally()
    asked = question(gold_passages=("a",))
    found.add(asked, searched(asked, passages("a")))
    found.add(asked, searched(asked, (), Outcome.FAILED))

    assert (found.failed, found.sourced, found.searched, found.found_none) == (0, 2, 2, 1)
    assert value(found.mrr()) == 0.5


def test_a_question_that_failed_was_shown_nothing_and_is_in_no_figure_of_what_was_shown() -> None:
    found = tally()
    asked = question(gold_passages=("a",))
    found.add(asked, searched(asked, [Passage(id="a", score=1.0, text="Iron.")]))
    # The question alone is longer than the model's context, so that every passage was left out.
    found.add(asked, searched(asked, passages("ab", hidden="ab"), Outcome.FAILED))

    assert (value(found.mrr()), found.sourced) == (1.0, 2), "both were found"
    for figure in (found.context_precision(), found.answer_in_context()):
        assert figure is not None
        assert (figure.value, figure.of) == (1.0, 1)


def test_context_sources_are_counted_and_own_contexts_are_not_retrievals() -> None:
    found = tally()
    asked = question(gold_passages=("a",))
    found.add(asked, searched(asked, passages("ab")))
    own = Verdict(question_id="q", outcome=Outcome.WRONG, context_source=ContextSource.QUESTION)
    found.add(asked, own)
    found.add(asked, own.model_copy(update={"outcome": Outcome.FAILED}))
    found.add(asked, None)

    assert found.to_json()["context_sources"] == {"none": 0, "question": 2, "retrieved": 1}
    assert (found.sourced, found.failed) == (1, 0)


def test_a_search_that_found_nothing_is_a_miss() -> None:
    found = tally()
    asked = question(gold_passages=("a",))
    found.add(asked, searched(asked, [], Outcome.WRONG))

    assert [each.value for each in found.recall_any().values()] == [0, 0, 0]
    assert (value(found.mrr()), value(found.context_precision())) == (0, 0)
    assert value(found.accuracy(hit=False)) == 0
    assert found.to_json()["context_sources"] == {"none": 1, "question": 0, "retrieved": 0}
    assert found.to_json()["passages"]["of"] == 1


def test_intervals_stand_beside_every_figure() -> None:
    found = tally(top_k=1)
    asked = question(gold_passages=("a",))
    for _ in range(10):
        found.add(asked, searched(asked, passages("a")))

    content = found.to_json()
    # Wilson for ten of ten: 1 / (1 + 1.96² / 10).
    whole = {"value": 1, "low": pytest.approx(1 / (1 + 3.841459 / 10), abs=1e-6), "high": 1, "of": 10}
    assert content["mrr"] == content["context_precision"] == content["recall_share"]["1"] == whole
    assert content["recall_any"]["1"] == content["accuracy_with_right_passage"] == {**whole, "right": 10}
    assert content["accuracy_without_right_passage"] is None


def test_parts_of_a_run_add_up_to_the_whole() -> None:
    named, plain, keyless = question(gold_passages=("a", "b")), question(), question(answer=None)
    iron = (Passage(id="a", score=1.0, text=f"{CHOICES[0]} and {CHOICES[1]}", rank=1), *passages("xb", hidden="b"))
    own = Verdict(question_id="q", outcome=Outcome.WRONG, context_source=ContextSource.QUESTION)
    trouble = {"outcome": Outcome.FAILED, "error": Failure(type="Trouble", message="again")}
    results = [
        (named, searched(named, iron)),
        (named, searched(named, passages("xya"), Outcome.WRONG)),
        (named, searched(named, [])),
        (plain, searched(plain, iron, Outcome.UNANSWERED)),
        (keyless, searched(keyless, passages("ab"), Outcome.ANSWERED)),
        (named, searched(named, passages("ab")).model_copy(update=trouble)),
        (named, searched(named, []).model_copy(update=trouble)),
        (named, Verdict.model_validate({"question_id": "q", **trouble})),
        (plain, own),
    ]
    whole, parts = tally(), tally()
    for asked, verdict in results:
        part = tally()
        for counted in (whole, part):
            counted.add(asked, verdict)
        parts.include(part)

    assert all((parts.found_none, parts.failed, parts.cut, parts.right_in_context, parts.answers))
    assert parts == whole


LETTERS = "abcdefghij"
rankings = st.tuples(st.sets(st.sampled_from(LETTERS + "xyz"), min_size=1), st.permutations(LETTERS))


@given(st.lists(rankings, min_size=1, max_size=8))
def test_recall_grows_with_the_depth_and_the_reciprocal_rank_lies_between_its_ends(
    asked: list[tuple[set[str], list[str]]],
) -> None:
    found = tally(top_k=10)
    for gold, ids in asked:
        each = question(gold_passages=tuple(sorted(gold)))
        found.add(each, searched(each, passages("".join(ids))))

    of_any = [each.value for each in found.recall_any().values()]
    of_all = [each.value for each in found.recall_share().values()]
    assert of_any == sorted(of_any)
    assert of_all == sorted(of_all)
    assert all(some >= part - 1e-12 for some, part in zip(of_any, of_all, strict=True))
    assert of_any[0] <= value(found.mrr()) + 1e-12
    assert value(found.mrr()) <= of_any[-1] + 1e-12
    assert 0 <= value(found.context_precision()) <= 1


@given(st.lists(st.booleans(), max_size=12))
def test_context_precision_is_whole_exactly_when_the_right_passages_come_first(ranking: list[bool]) -> None:
    found = average_precision(ranking)

    assert 0 <= found <= 1
    assert (found == 1) == (any(ranking) and ranking == sorted(ranking, reverse=True))


def test_a_question_named_by_its_hash_for_which_nothing_was_found_is_a_miss() -> None:
    found = tally(question_hashes=True)
    for number in range(10):
        asked = question(id=f"q{number}", metadata={"question_hash": f"h{number}"})
        right = Passage(id="p", score=1.0, text="t", question_hash=f"h{number}")
        found.add(asked, searched(asked, [right] if number < 5 else []))
    recall = found.recall_any()[1]
    assert (recall.value, recall.of) == (0.5, 10)
    assert value(found.mrr()) == 0.5
