"""Which outcomes of questions with a key an accuracy is of."""

from __future__ import annotations

from contract.verdict import Outcome

__all__ = ["ALL", "ANSWERED", "HEARD"]

#: The model made a choice.
ANSWERED = frozenset({Outcome.CORRECT, Outcome.WRONG})
#: It was heard, whether it made one or not: what is left without the failed ones.
HEARD = ANSWERED | {Outcome.UNANSWERED}
ALL = HEARD | {Outcome.FAILED}
