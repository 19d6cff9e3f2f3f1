"""Marking an answer by what its question's file says: the key, and the passages that answer it."""

from __future__ import annotations

from collections.abc import Iterable

from contract.prompts import wants_passages
from contract.question import Question
from contract.relevance import sources_of
from contract.spec import RunSpec
from contract.verdict import Outcome, Passage

__all__ = ["hit", "mark", "mark_rotations"]


def mark(question: Question, choice: str | None) -> Outcome:
    """Return the outcome of a choice, given as its label; None: nothing was chosen."""
    if choice is None:
        return Outcome.UNANSWERED
    if question.answer is None:
        return Outcome.ANSWERED
    return Outcome.CORRECT if choice in question.right else Outcome.WRONG


def mark_rotations(outcome: Outcome, right: int, rotations: int) -> Outcome:
    """Return the outcome of a question asked in several rotations, of which `right` were correct.

    `outcome` is that of its most frequent choice. It is only correct if all rotations are.
    """
    return Outcome.WRONG if outcome is Outcome.CORRECT and right < rotations else outcome


def hit(question: Question, spec: RunSpec, passages: Iterable[Passage]) -> bool | None:
    """Whether a passage that answers the question was shown; None if unknown, or if nothing was retrieved."""
    if spec.rag is None or not wants_passages(question, spec):
        return None
    sources = sources_of(question, by_hash=spec.rag.question_hashes)
    return sources.hit(each for each in passages if each.shown)
