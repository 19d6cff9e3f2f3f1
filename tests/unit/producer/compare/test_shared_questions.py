"""Runs that share some of their questions are compared by these alone, if asked."""

from __future__ import annotations

from contract.question import Question
from tests.unit.producer.compare.conftest import Ran, keyed
from tests.unit.producer.conftest import Producer


def test_runs_that_share_some_questions_are_compared_by_these_alone_if_asked(ran: Ran, compare: Producer) -> None:
    """A run of a file and one of its first questions, or of a repaired version, could not be compared at all."""
    many = keyed(6)
    repaired = many[2].model_copy(update={"answer": "B"})
    renamed = many[3].model_copy(update={"subject": "law", "metadata": {"level": 1}})
    new = many[0].model_copy(update={"id": "new"})
    ran("one", "cwccww", many)
    # In another order.
    ran("two", "ccwcc", [new, many[1], repaired, renamed, many[0]], questions_digest="1" * 64, model="large")

    refused = compare("one", "two", exit_code=1).stderr
    text = compare("one", "two", "--shared").stdout
    found = compare.json("one", "two", "--shared")

    assert "6 and 5 question ids, with 4 in common, of which 1 differ, first in answer of q2." in refused
    assert "Add --shared to compare the 3 that are the same in both, or enqueue the same file for both, with" in refused
    assert "pairs       3: both right 2 · only A 0 · only B 1 · neither 0\n" in text
    assert "left out    4 questions: 2 only in A · 1 only in B · 1 changed between A and B; the figures are" in text
    assert found["left_out"] == {"only_a": 2, "only_b": 1, "changed": 1}
    assert (found["pairs"], [each["id"] for each in found["flips"]]) == (3, ["q1"])
    assert found["spec_differences"] == {"model": {"a": "small", "b": "large"}}
    mirrored = compare.json("two", "one", "--shared")
    assert mirrored["left_out"] == {"only_a": 1, "only_b": 2, "changed": 1}
    assert mirrored["contingency"] == {"both": 2, "only_a": 1, "only_b": 0, "neither": 0}


def test_runs_of_which_one_question_was_changed_do_not_differ_in_nothing(ran: Ran, compare: Producer) -> None:
    many = keyed(3)
    ran("one", "ccw", many)
    changed = many[2].model_copy(update={"question": "Another one?"})
    ran("two", "cc", [many[0], changed], questions_digest="1" * 64)

    text = compare("one", "two", "--shared").stdout

    assert "differ in   nothing but the questions: those of both runs were asked in the same way\n" in text
    assert "left out    2 questions: 1 only in A · 1 changed between A and B" in text


def test_runs_over_the_same_questions_are_compared_alike_with_and_without_the_option(
    ran: Ran, compare: Producer
) -> None:
    ran("one", "ccwwufa")
    ran("two", "cwcccwa", model="large")

    assert compare("one", "two", "--shared").stdout == compare("one", "two").stdout
    assert "left out" not in compare("one", "two").stdout
    assert compare.json("one", "two")["left_out"] == {"only_a": 0, "only_b": 0, "changed": 0}


def test_of_shared_questions_chance_is_that_of_these_alone(ran: Ran, compare: Producer) -> None:
    hard = [
        Question(id=f"h{at}", question="q", choices=("a", "b", "c", "d"), answer="A", subject="hard") for at in range(4)
    ]
    ran("one", "cccccc", [*keyed(2), *hard], chance=0.333)
    ran("two", "cc", keyed(2), questions_digest="1" * 64)

    found = compare.json("one", "two", "--shared")

    assert (found["chance"], found["a"]["chance"], found["b"]["chance"]) == (0.5, 0.5, 0.5)
    assert "chance      0.500\n" in compare("one", "two", "--shared").stdout


def test_runs_that_share_no_question_or_of_which_one_is_not_settled_are_refused_also_with_the_option(
    ran: Ran, compare: Producer
) -> None:
    ran("one", "cc", keyed(2))
    ran("two", "c", [keyed(1)[0].model_copy(update={"id": "x"})], questions_digest="1" * 64)
    ran("three", "-", keyed(1), questions_digest="2" * 64)

    told = compare("one", "two", "--shared", exit_code=1).stderr
    assert "Runs one and two share no question: 3 questions: 2 only in A · 1 only in B." in told
    assert "Run three is not settled" in compare("one", "three", "--shared", exit_code=1).stderr


def test_runs_of_which_one_has_relevance_judgements_are_refused_with_the_option(ran: Ran, compare: Producer) -> None:
    ran("closed-book", "cc", keyed(2))
    judged = [each.model_copy(update={"gold_passages": ("p1",)}) for each in keyed(2)]
    ran("retrieved", "cc", judged, questions_digest="1" * 64)

    told = compare("closed-book", "retrieved", exit_code=1).stderr

    assert "with 2 in common, but they differ, first in gold_passages of q0. Enqueue the same file, and give" in told
    assert "give --qrels to both" in told


def test_questions_whose_sources_differ_are_not_shared(ran: Ran, compare: Producer) -> None:
    for name, source in (("one", "7"), ("two", "8")):
        asked = [each.model_copy(update={"metadata": {"source_id": source}}) for each in keyed(2)]
        ran(name, "cc", asked, questions_digest=source * 64)

    told = compare("one", "two", exit_code=1).stderr
    assert "they differ, first in metadata of q0" in told
    assert "--shared" not in told
