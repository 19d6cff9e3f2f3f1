"""Mode `likelihood`: what a question's log-likelihoods come to under each normalization, so that one run tells `acc`
and `acc_norm`."""

from __future__ import annotations

import math
from collections.abc import Mapping

from contract.choice_order import arrangements
from contract.question import Question
from contract.spec import Mode, Normalization, RunSpec
from contract.verdict import Verdict

__all__ = ["right_by", "sums"]

#: Of a sum that was divided by a length and is multiplied by it again: what is beyond is lost, and equal sums are not
#: to be told apart by it.
_DECIMALS = 9


def sums(question: Question, verdict: Verdict, spec: RunSpec) -> dict[str, float]:
    """Label → the choice's log-likelihood, summed over its tokens, in nats; nan where the verdict has none."""
    return {
        label: round(verdict.choice_scores.get(label, math.nan) * spec.normalization.length(choice), _DECIMALS)
        for label, choice in zip(question.labels, question.choices, strict=True)
    }


def right_by(question: Question, verdict: Verdict, spec: RunSpec) -> dict[Normalization, bool]:
    """Whether the likeliest choice is right under each normalization.

    Nothing of a run in other modes, nor of a circular one, whose verdict has the scores of one rotation.
    """
    if spec.mode is not Mode.LIKELIHOOD or spec.circular:
        return {}
    found = sums(question, verdict, spec)
    # In the order in which they were shown, because of equals the one shown first is chosen.
    arrangement = arrangements(question, spec)[0]
    shown = [arrangement.original(label) for label in question.labels]
    return {each: _best(question, shown, found, each) in question.right for each in Normalization}


def _best(question: Question, shown: list[str], found: Mapping[str, float], normalization: Normalization) -> str:
    return max(shown, key=lambda label: found[label] / normalization.length(question.choice_text(label)))
