"""What summary.json says of a run that ended so."""

from __future__ import annotations

from typing import Any

from contract import MemoryLedger, Outcome, RunState, Verdict
from producer.export.summary import Summary
from producer.export.summary_json import summary_json
from tests.support import make_questions, open_run

__all__ = ["summary_of", "verdict"]


def summary_of(*verdicts: Verdict, **spec: Any) -> dict[str, Any]:
    """The summary of a run whose questions, all with the key A, ended as `verdicts`."""
    books = MemoryLedger()
    questions = [each.model_copy(update={"answer": "A"}) for each in make_questions(len(verdicts))]
    run = open_run(books, questions, "test", **spec)
    books.commit(run.run_id, [each.model_copy(update={"question_id": f"q{n}"}) for n, each in enumerate(verdicts)])
    return summary_json(Summary.of(run, RunState.RUNNING, books.results(run.run_id)))


def verdict(outcome: Outcome, **more: Any) -> Verdict:
    return Verdict(question_id="", outcome=outcome, **more)
