"""Sets of outcomes that form the denominator of an accuracy, for questions with a key."""

from __future__ import annotations

from contract.verdict import Outcome

__all__ = ["ALL", "ANSWERED", "RESPONDED"]

#: The model made a choice.
ANSWERED = frozenset({Outcome.CORRECT, Outcome.WRONG})
#: The model responded, whether with a choice or not: everything but failed questions.
RESPONDED = ANSWERED | {Outcome.UNANSWERED}
ALL = RESPONDED | {Outcome.FAILED}
