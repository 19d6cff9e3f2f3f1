"""The part of a verdict that a paired comparison needs, small enough to keep in memory for a whole run."""

from __future__ import annotations

from typing import NamedTuple, Self

from contract.ledger import Run
from contract.question import Question
from contract.relevance import sources_of
from contract.spec import Retrieval
from contract.verdict import ContextSource, Outcome, Verdict
from producer.stats.retrieval import was_searched_for

__all__ = ["Side"]


class Side(NamedTuple):
    """One run's side of a pair."""

    outcome: Outcome
    choice: str | None
    context_source: ContextSource
    retrieval_hit: bool | None
    #: Rank of the first relevant passage, from 1; 0 if none was retrieved. None if the question names no source, or
    #: nothing was searched for it.
    found_at: int | None
    #: Whether the simulated engine answered, so that the answer is meaningless.
    simulated: bool
    #: Id of the run in which the model was asked: another one if `enqueue --reuse` took the answer over.
    asked_in: str

    @classmethod
    def of(cls, run: Run, question: Question, verdict: Verdict) -> Self:
        """Create the side of `run` from its verdict."""
        found_at = _found_at(run.spec.rag, question, verdict) if run.spec.rag else None
        return cls(
            verdict.outcome,
            verdict.choice,
            verdict.context_source,
            verdict.retrieval_hit,
            found_at,
            verdict.simulated,
            asked_in=verdict.reused_from or run.run_id,
        )

    @property
    def failed(self) -> bool:
        """Whether the question failed, which is not a wrong answer."""
        return self.outcome is Outcome.FAILED

    @property
    def right(self) -> bool:
        return self.outcome is Outcome.CORRECT


def _found_at(rag: Retrieval, question: Question, verdict: Verdict) -> int | None:
    if not was_searched_for(verdict):
        return None
    if not (sources := sources_of(question, by_hash=rag.question_hashes)):
        return None
    return next((rank for rank, each in enumerate(verdict.passages, 1) if sources.answered_by(each)), 0)
