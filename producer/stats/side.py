"""What a paired comparison needs of one run's verdict on a question: little enough to keep all of a run."""

from __future__ import annotations

from typing import NamedTuple, Self

from contract.ledger import Run
from contract.question import Question
from contract.relevance import sources_in
from contract.spec import Retrieval
from contract.verdict import ContextSource, Outcome, Verdict

__all__ = ["Side"]


class Side(NamedTuple):
    """One run's side of a pair."""

    outcome: Outcome
    choice: str | None
    context_source: ContextSource
    retrieval_hit: bool | None
    #: Rank of the first passage that answers, from 1; 0 where none of those retrieved does. None where the question
    #: names no source, or nothing was looked up for it.
    found_at: int | None
    #: Whether the simulated engine answered, which means nothing.
    simulated: bool

    @classmethod
    def of(cls, run: Run, question: Question, verdict: Verdict) -> Self:
        """The side of `run`, whose verdict this is."""
        found_at = _found_at(run.spec.rag, question, verdict) if run.spec.rag else None
        return cls(
            verdict.outcome, verdict.choice, verdict.context_source, verdict.retrieval_hit, found_at, verdict.simulated
        )

    @property
    def failed(self) -> bool:
        """Whether the model was not heard: an error is no wrong answer."""
        return self.outcome is Outcome.FAILED

    @property
    def right(self) -> bool:
        return self.outcome is Outcome.CORRECT


def _found_at(rag: Retrieval, question: Question, verdict: Verdict) -> int | None:
    # Not for what brought its own context, and not if it failed before anything was found.
    nothing_found = verdict.outcome is Outcome.FAILED and not verdict.passages
    if verdict.context_source is ContextSource.QUESTION or nothing_found:
        return None
    if not (sources := sources_in(question, rag, verdict.passages)):
        return None
    return next((rank for rank, each in enumerate(verdict.passages, 1) if sources.answered_by(each)), 0)
