"""What retrieval repaired and broke, and which of two runs that retrieve found more."""

from __future__ import annotations

from typing import Any

from contract.ledger import MemoryLedger
from contract.question import Question
from contract.verdict import ContextSource, Outcome, Passage
from tests.support import settle
from tests.unit.producer.compare.conftest import QUESTIONS, RAG, Ran, keyed
from tests.unit.producer.conftest import Producer


def test_what_retrieval_repaired_and_broke_is_told_apart_by_what_was_shown(ran: Ran, compare: Producer) -> None:
    ran("closed", "wwwwccccwf", keyed(10))
    ran("rag", "cccwcwwwfc", keyed(10), hits="++-+++--++", rag=RAG)

    lines = compare("closed", "rag").stdout.splitlines()

    # q0 to q2 are repaired, q5 to q7 broken; q8 failed with retrieval, q9 without: neither repaired nor broken.
    assert "retrieval   B was shown passages in 8 pairs · excluded 2 where A or B failed" in lines
    assert "repaired    3 of 4 incorrect in A, correct in B: 2 with a relevant passage shown, 1 without one" in lines
    assert "broken      3 of 4 correct in A, incorrect in B: 1 with a relevant passage shown, 2 without one" in lines
    at = next(number for number, line in enumerate(lines) if line.startswith("apart"))
    # Shown: q0, q1, q3, q4, q5, of which A has two and B three right. Not shown: q2, q6, q7; A has two, B one.
    assert lines[at].startswith(
        "apart       5 pairs with a relevant passage shown: accuracy 0.400 → 0.600, +0.200  95 %"
    )
    assert lines[at + 1].strip().startswith("3 pairs without one: accuracy 0.667 → 0.333, -0.333  95 %")
    table = [line.rstrip() for line in lines[lines.index("") + 1 :]]
    assert table[0].split() == ["question", "subject", "key", "A", "B", "retrieval"]
    assert table[1].endswith("repaired · relevant passage shown")
    assert table[3].endswith("repaired · relevant passage not shown")
    assert table[4].endswith("broken · relevant passage shown")
    assert "q9" not in " ".join(table), "A failed: nothing is known of what retrieval did to it"


def test_programs_get_each_kind_of_pair_and_what_became_of_every_flip(ran: Ran, compare: Producer) -> None:
    ran("closed", "wwwwccccwf", keyed(10))
    ran("rag", "cccwcwwwfc", keyed(10), hits="++-+++--++", rag=RAG)

    found = compare.json("closed", "rag")

    told = found["retrieval"]
    assert (told["without"], told["with"], told["either_failed"], told["own_context"]) == ("a", "b", 2, 0)
    assert (told["all"]["repaired"], told["all"]["broken"], told["all"]["pairs"]) == (3, 3, 8)
    shown = told["right_passage_shown"]
    assert (shown["repaired"], shown["broken"], shown["pairs"]) == (2, 1, 5)
    assert shown["contingency"] == {"both": 1, "only_a": 1, "only_b": 2, "neither": 1}
    assert (shown["accuracy_without"]["value"], shown["accuracy_with"]["value"]) == (0.4, 0.6)
    assert told["source_not_named"] is None
    did = {each["id"]: (each["retrieval"], each["retrieval_hit"]) for each in found["flips"]}
    assert did == {
        "q0": ("repaired", True),
        "q1": ("repaired", True),
        "q2": ("repaired", False),
        "q5": ("broken", True),
        "q6": ("broken", False),
        "q7": ("broken", False),
    }


def test_the_run_with_retrieval_may_be_named_first(ran: Ran, compare: Producer) -> None:
    ran("rag", "ccw", keyed(3), hits="+++", rag=RAG)
    ran("closed", "wwc", keyed(3))

    text = compare("rag", "closed").stdout

    assert "retrieval   A was shown passages in 3 pairs" in text
    assert "repaired    2 of 2 incorrect in B, correct in A: 2 with a relevant passage shown" in text
    assert "broken      1 of 1 correct in B, incorrect in A" in text
    assert "apart" not in text, "there is only one kind"
    assert compare.json("rag", "closed")["retrieval"]["with"] == "a"


def test_questions_that_name_no_source_are_not_told_apart(ran: Ran, compare: Producer) -> None:
    ran("closed", "wwca", [*keyed(3), QUESTIONS[6]])
    ran("rag", "cwwa", [*keyed(3), QUESTIONS[6]], hits="????", rag=RAG)

    lines = compare("closed", "rag").stdout.splitlines()

    assert "repaired    1 of 2 incorrect in A, correct in B" in lines
    assert "broken      1 of 1 correct in A, incorrect in B" in lines
    assert lines[-2].split()[-3:] == ["A", "correct", "repaired"]


def test_questions_with_their_own_context_are_no_work_of_retrieval(ran: Ran, compare: Producer) -> None:
    ran("closed", "wwc", keyed(3))
    ran("rag", "ccw", keyed(3), hits="+oo", rag=RAG)

    text = compare("closed", "rag").stdout

    assert "B was shown passages in 1 pair · excluded 2 with their own context" in text
    assert "repaired    1 of 1 incorrect in A" in text


def test_questions_for_which_nothing_was_found_are_not_said_to_have_been_shown_passages(
    ran: Ran, compare: Producer
) -> None:
    ran("closed", "wwc", keyed(3))
    ran("rag", "ccw", keyed(3), hits="+00", rag=RAG)

    assert "retrieval   B was shown passages in 1 of 3 pairs" in compare("closed", "rag").stdout
    assert compare.json("closed", "rag")["retrieval"]["nothing_shown"] == 2


def test_what_another_model_changed_is_not_told_as_the_work_of_passages(ran: Ran, compare: Producer) -> None:
    ran("closed", "wwc", keyed(3))
    ran("rag", "ccw", keyed(3), hits="+++", rag=RAG)
    ran("larger", "ccw", keyed(3), hits="+++", rag=RAG, model="large", seed=7)
    told = "the runs also differ in model, seed: the changes are not due to the passages alone"

    assert told in compare("closed", "larger").stdout
    assert compare.json("closed", "larger")["retrieval"]["also_differ_in"] == ["model", "seed"]
    assert "not due to" not in compare("closed", "rag").stdout


def test_what_contexts_of_the_other_run_did_is_not_told_as_the_work_of_passages(ran: Ran, compare: Producer) -> None:
    ran("given", "wwc", keyed(3), hits="ooo", use_context_field=True)
    ran("rag", "ccw", keyed(3), hits="+++", rag=RAG)
    ran("either", "ccw", keyed(3), hits="+oo", rag=RAG, use_context_field=True)
    ran("closed", "wwc", keyed(3))

    assert "the runs also differ in rag.use_context_field: the changes" in compare("given", "rag").stdout
    assert compare.json("rag", "given")["retrieval"]["also_differ_in"] == ["rag.use_context_field"]
    for one, other in (("given", "either"), ("closed", "either"), ("closed", "rag")):
        assert compare.json(one, other)["retrieval"]["also_differ_in"] == [], "own contexts are in no pair"


def test_two_runs_that_both_retrieve_are_only_compared(ran: Ran, compare: Producer) -> None:
    ran("five", "wc", keyed(2), hits="+-", rag=RAG)
    ran("ten", "cc", keyed(2), hits="++", rag=RAG.model_copy(update={"retrieval_top_k": 10}))

    text = compare("five", "ten").stdout

    assert "rag.retrieval_top_k: 5 → 10" in text
    assert "repaired" not in text


def test_where_nothing_was_retrieved_nothing_is_said_of_its_effect(ran: Ran, compare: Producer) -> None:
    ran("closed", "ww", keyed(2))
    ran("rag", "fw", keyed(2), hits="?o", rag=RAG)

    text = compare("closed", "rag").stdout

    assert "retrieval   B used it, but no pair can be compared · excluded 1 where A or B failed" in text
    assert "1 with their own context" in text
    assert "repaired" not in text


def found(*ids: str, without_room: str = "") -> dict[str, Any]:
    """What a verdict says of a search that found these passages, best first."""
    passages = tuple(
        Passage(id=each, score=1.0, rank=rank, text="t", shown=each != without_room) for rank, each in enumerate(ids, 1)
    )
    return {"context_source": ContextSource.RETRIEVED, "passages": passages}


def test_of_two_runs_that_both_retrieve_it_is_told_which_found_what_answers(
    ran: Ran, ledger: MemoryLedger, compare: Producer
) -> None:
    failed, nothing = {"outcome": Outcome.FAILED}, {"context_source": ContextSource.NONE}
    own_context = {"context_source": ContextSource.QUESTION}
    # The first run goes two passages down, the second one three: what stands third is not compared, whatever was shown.
    counted = [
        (found("x", "right"), found("right")),
        (found("x", "y"), found("x", "right")),
        (found("x", "y"), found("x", "y", "right", without_room="y")),
        (nothing, found("right")),
        (found("right"), found("x", "y")),
        ({**found("right"), **failed}, found("right")),
        ({**nothing, **failed, "retrieval_hit": False}, found("right")),
    ]
    left_out = [(failed, found("right")), (found("right"), failed), (own_context, own_context)]
    both = [*counted, *left_out, (found("right"), found("x"))]
    asked = [
        Question(id=f"q{n}", question="q", choices=("a", "b"), answer="A", gold_passages=("right",))
        for n in range(len(both) - 1)
    ]
    # It names no source: readers add a hash, but the passages have none.
    hashed = {"metadata": {"question_hash": "ab12"}}
    asked.append(
        Question.model_validate({**asked[0].model_dump(), "id": f"q{len(asked)}", "gold_passages": (), **hashed})
    )
    for name, top_k, verdicts in zip(("two", "three"), (2, 3), zip(*both, strict=True), strict=True):
        ran(name, "-" * len(asked), asked, rag=RAG.model_copy(update={"retrieval_top_k": top_k}))
        for each, verdict in zip(asked, verdicts, strict=True):
            settle(ledger, name, each.id, **verdict)

    told = compare("two", "three").stdout
    assert "recall@2    A 0.429 · B 0.714  relevant passage found, of 7 questions" in told
    assert "only A found it 1 · only B 3 · neither 1" in told
    recall = compare.json("two", "three")["recall"]
    assert (recall["depth"], recall["contingency"]) == (2, {"both": 2, "only_a": 1, "only_b": 3, "neither": 1})


def test_runs_whose_questions_name_no_source_have_no_recall_to_compare(ran: Ran, compare: Producer) -> None:
    ran("five", "wc", keyed(2), hits="??", rag=RAG)
    ran("ten", "cc", keyed(2), hits="??", rag=RAG.model_copy(update={"retrieval_top_k": 10}))
    assert "recall@" not in compare("five", "ten").stdout
    assert compare.json("five", "ten")["recall"] is None
