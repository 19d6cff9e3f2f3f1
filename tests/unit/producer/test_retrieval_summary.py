"""What a person reads of retrieval."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from contract.ledger import MemoryLedger
from contract.question import Question
from contract.spec import IndexKind, Prompt, Retrieval
from contract.verdict import ContextSource, Failure, Outcome, Passage, Verdict
from producer.retrieval_summary import retrieval_lines
from producer.stats import RetrievalTally
from tests.support import make_question, open_run
from tests.unit.producer.conftest import Producer

RAG = Retrieval(index="facts", index_digest="0" * 64, kind=IndexKind.BM25, retrieval_top_k=3)


def test_a_run_without_retrieval_has_no_line_about_it() -> None:
    assert retrieval_lines(None) == []


def test_every_figure_comes_with_what_it_is_of() -> None:
    found = RetrievalTally.of(RAG)
    ranked = tuple(Passage(id=each, score=1.0, text="8", rank=at, shown=at < 3) for at, each in enumerate("abc", 1))
    for number, (gold, hit) in enumerate([("b", True), ("c", False)]):
        asked = make_question(number, gold_passages=(gold, "elsewhere"), choices=("8", "9"), answer="A")
        outcome = Outcome.CORRECT if hit else Outcome.WRONG
        found.add(
            asked,
            Verdict(
                question_id=asked.id,
                outcome=outcome,
                context_source=ContextSource.RETRIEVED,
                passages=ranked,
                retrieval_hit=hit,
            ),
        )
    own = Verdict(question_id="x", outcome=Outcome.CORRECT, context_source=ContextSource.QUESTION)
    found.add(make_question(7), own)
    lost = Verdict(question_id="x", outcome=Outcome.FAILED, error=Failure(type="IndexUnusable", message="corrupt"))
    found.add(make_question(8), lost)

    lines = retrieval_lines(found)

    extent = "passages for 2 questions · 2.0 shown each · not all fit in 2"
    assert lines[:3] == [
        ("retrieval", f"{extent} · 1 with their own context · 1 failed without passages"),
        ("recall", "@1 0.000 · @3 1.000  a relevant passage among the first k, shown or not, of 2 questions"),
        ("", "@1 0.000 · @3 0.500  mean share of the relevant passages found there, of 2 questions"),
    ]
    begun = [(label, text.split("  ")[0], text.split(") ")[1]) for label, text in lines[3:]]
    assert begun == [
        ("MRR@3", "0.417", "reciprocal rank of the first relevant passage"),
        ("precision", "0.250", "of the context: relevant passages ranked before others"),
        ("hit", "1.000", "accuracy with a relevant passage shown"),
        ("miss", "0.000", "accuracy without one shown"),
        ("in context", "1.000", "a shown passage contains the right choice's text"),
        ("", "0.000", "share of the wrong choices whose text a shown passage contains"),
    ]


def test_the_baseline_of_answers_in_context_says_that_it_is_a_share_of_choices_not_of_questions() -> None:
    """`0.333 a shown passage contains a wrong choice's text` was told where that was so for every question."""
    found = RetrievalTally.of(RAG)
    passages = (Passage(id="a", score=1.0, text="8 and 9"),)
    asked = make_question(1, choices=("8", "9", "10", "11"), answer="A")
    found.add(
        asked,
        Verdict(
            question_id=asked.id,
            outcome=Outcome.CORRECT,
            context_source=ContextSource.RETRIEVED,
            passages=passages,
        ),
    )
    (_, of_wrong) = retrieval_lines(found)[-1]
    assert of_wrong.startswith("0.333  ")
    assert of_wrong.endswith("(mean of 1) share of the wrong choices whose text a shown passage contains")


def test_figures_of_no_question_are_not_shown() -> None:
    assert retrieval_lines(RetrievalTally.of(RAG)) == [("retrieval", "passages for 0 questions")]


def test_a_threshold_that_drops_every_passage_is_named_where_nothing_else_explains_it() -> None:
    found = RetrievalTally.of(RAG.model_copy(update={"retrieval_score_threshold": 100.0}))
    dropped = Verdict(question_id="x", outcome=Outcome.WRONG, context_source=ContextSource.NONE)
    too_long = (Passage(id="a", score=101.0, text="8", rank=1, shown=False),)
    for number in range(10):
        found.add(make_question(number), dropped)
    found.add(make_question(10), dropped.model_copy(update={"passages": too_long}))

    ((_, extent),) = retrieval_lines(found)[:1]

    assert "none reached rag.retrieval_score_threshold=100 for 10 · none shown for 1" in extent
    found.rag = RAG
    ((_, extent),) = retrieval_lines(found)[:1]
    assert extent.endswith("none shown for 11"), "without a threshold, the index has nothing"


SETTLED = Verdict(
    question_id="q1",
    outcome=Outcome.CORRECT,
    choice="B",
    context_source=ContextSource.RETRIEVED,
    passages=(
        Passage(id="water-0003", score=7.25, rank=1, text="One and one\nis 3.", document="water", path="water.md"),
        Passage(id="fire", score=-0.5, rank=2, text="Fire burns.", document="fire", shown=False),
    ),
    retrieval_hit=True,
)


@pytest.fixture
def settled(ledger: MemoryLedger) -> str:
    """The id of a run whose only question, q1, was retrieved for."""
    asked = [make_question(1, gold_passages=("water-0003",))]
    run_id = open_run(ledger, asked, rag=RAG.model_dump()).run_id
    ledger.commit(run_id, [SETTLED])
    return run_id


def test_show_lists_every_passage_with_its_text_and_whether_the_model_saw_it(settled: str, producer: Producer) -> None:
    lines = producer("show", settled, "q1").stdout.splitlines()

    at = next(number for number, line in enumerate(lines) if line.startswith("passages"))
    assert [line.strip() for line in lines[at : at + 5]] == [
        "passages  1.  7.250000  water-0003 · document water · path water.md · shown  ← relevant",
        "One and one",
        "is 3.",
        "2.  -0.500000  fire · did not fit",
        "Fire burns.",
    ]
    assert "context   retrieved · a relevant passage was shown" in lines


def test_show_gives_programs_the_passages_with_rank_score_and_text(settled: str, producer: Producer) -> None:
    found = producer.json("show", settled, "q1")["verdict"]

    assert (found["context_source"], found["retrieval_hit"]) == ("retrieved", True)
    assert found["passages"][1] == {
        "id": "fire",
        "score": -0.5,
        "text": "Fire burns.",
        "rank": 2,
        "document": "fire",
        "path": "",
        "question_hash": "",
        "shown": False,
    }


def test_a_runs_end_tells_what_retrieval_did(settled: str, producer: Producer) -> None:
    text = producer("watch", settled).stdout

    assert "retrieval   passages for 1 question · 1.0 shown each · not all fit in 1" in text
    assert "hit         1.000  95 % interval 0.207 to 1.000 (1 of 1) accuracy with a relevant passage shown" in text
    assert producer.json("watch", settled)["retrieval"]["mrr"]["value"] == 1


def test_an_export_keeps_all_of_it_and_says_that_passages_were_left_out(settled: str, producer: Producer) -> None:
    text = producer("export", settled, "--format", "csv", "--format", "jsonl").stdout
    folder = Path("results") / settled

    with (folder / "results.csv").open(newline="", encoding="utf-8") as file:
        row = next(csv.DictReader(file))
    columns = ("retrieved_ids", "retrieval_scores", "retrieval_hit", "passages_left_out", "truncated")
    assert [row[each] for each in columns] == ['["water-0003","fire"]', "[7.25,-0.5]", "true", "1", "false"]
    line = json.loads((folder / "results.jsonl").read_text())
    assert Verdict.model_validate(line["verdict"]) == SETTLED
    assert Question.model_validate(line["question"]).gold_passages == ("water-0003",)
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["retrieval"]["passages"]["questions_without_room_for_all"] == 1
    assert summary["rates"]["truncated"] == 0, "no text was cut off"
    assert summary["retrieval"]["recall_any"]["1"]["value"] == 1
    assert "passages for 1 question" in text


@pytest.mark.parametrize(
    ("verdict", "wanted"),
    [
        (None, "‹the passages retrieved for it› What is 1 plus 1?"),
        (
            Verdict(question_id="q1", outcome=Outcome.FAILED, error=Failure(type="WrongIndex", message="another")),
            "‹the passages retrieved for it› What is 1 plus 1?",
        ),
        (Verdict(question_id="q1", outcome=Outcome.WRONG), "What is 1 plus 1?"),
        (SETTLED, "One and one\nis 3. What is 1 plus 1?"),
    ],
)
def test_no_prompt_is_shown_without_passages_that_was_not_asked_so(
    ledger: MemoryLedger, producer: Producer, verdict: Verdict | None, wanted: str
) -> None:
    prompt = Prompt(name="mine", text="{% if context %}{{ context }} {% endif %}{{ question }}")
    run_id = open_run(ledger, [make_question(1)], rag=RAG.model_dump(), prompt=prompt).run_id
    ledger.commit(run_id, [verdict] if verdict else [])
    assert producer.json("show", run_id, "q1")["prompts"] == [wanted]
