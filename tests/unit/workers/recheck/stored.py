"""Verdicts that a run has already."""

from __future__ import annotations

from typing import Any

from benchmarks.made_up import LETTERED
from contract import MemoryLedger, Mode, Outcome, Run, Verdict
from contract.spec import Sampling

__all__ = ["GENERATES", "commit", "stored"]

GENERATES = {"mode": Mode.GENERATE, "sampling": Sampling(), "prompt": LETTERED}


def commit(books: MemoryLedger, run: Run, *verdicts: Verdict) -> None:
    books.commit(run.run_id, verdicts)


def stored(question_id: str, text: str, **more: Any) -> Verdict:
    """A verdict as rules that read nothing would have left it."""
    fields = {"question_id": question_id, "outcome": Outcome.UNANSWERED, "raw_text": text, "rule": "none"}
    return Verdict.model_validate(fields | {"prompt_tokens": 9} | more)
