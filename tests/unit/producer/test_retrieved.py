"""What a person reads of retrieval."""

from __future__ import annotations

from contract.spec import IndexKind, Retrieval
from contract.verdict import ContextSource, Failure, Outcome, Passage, Verdict
from producer.retrieved import retrieval_lines
from producer.stats import RetrievalTally
from tests.support import make_question

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

    extent = "passages for 2 questions · 2.0 shown each · not room enough for all in 2"
    assert lines[:3] == [
        ("retrieval", f"{extent} · 1 with their own context · failed for 1"),
        ("recall", "@1 0.000 · @3 1.000  a right passage in the first k, of 2"),
        ("", "@1 0.000 · @3 0.500  mean share of the right passages there, of 2"),
    ]
    begun = [(label, text.split("  ")[0], text.split(") ")[1]) for label, text in lines[3:]]
    assert begun == [
        ("MRR", "0.417", "of the first right passage"),
        ("precision", "0.250", "of the context: right passages before others"),
        ("hit", "1.000", "accuracy where a right passage was shown"),
        ("miss", "0.000", "accuracy where none was"),
        ("in context", "1.000", "the right choice's text stands in a passage shown"),
        ("", "0.000", "a wrong choice's text does"),
    ]


def test_figures_of_no_question_are_not_shown() -> None:
    assert retrieval_lines(RetrievalTally.of(RAG)) == [("retrieval", "passages for 0 questions")]
