"""Results of mode `likelihood` under every normalization, so that one run yields both `acc` and `acc_norm`."""

from __future__ import annotations

import math
from collections.abc import Mapping

from contract.choice_order import arrangements
from contract.question import Question
from contract.spec import Mode, Normalization, RunSpec
from contract.verdict import Verdict

__all__ = ["METRIC", "right_by", "sums"]

#: lm-evaluation-harness's metric for each normalization of log-likelihoods.
METRIC = {Normalization.NONE: "acc", Normalization.CHARACTER: "acc_norm", Normalization.BYTE: "acc_bytes"}
#: Digits kept of a sum that was divided by a length and multiplied by it again: later digits are rounding errors, which
#: must not make equal sums differ.
_DECIMALS = 9


def sums(question: Question, verdict: Verdict, spec: RunSpec) -> dict[str, float]:
    """Return label → the choice's log-likelihood, summed over its tokens, in nats; nan if the verdict has none."""
    return {
        label: round(verdict.choice_scores.get(label, math.nan) * spec.normalization.length(choice), _DECIMALS)
        for label, choice in zip(question.labels, question.choices, strict=True)
    }


def right_by(question: Question, verdict: Verdict, spec: RunSpec) -> dict[Normalization, bool]:
    """Return whether the likeliest choice is right under each normalization.

    Empty for runs in other modes, and for circular ones, whose verdicts have the scores of one rotation only.
    """
    if spec.mode is not Mode.LIKELIHOOD or spec.circular:
        return {}
    found = sums(question, verdict, spec)
    # In the order in which they were shown, because the first of several equal choices is chosen.
    arrangement = arrangements(question, spec)[0]
    shown = [arrangement.original(label) for label in question.labels]
    return {each: _best(question, shown, found, each) in question.right for each in Normalization}


def _best(question: Question, shown: list[str], found: Mapping[str, float], normalization: Normalization) -> str:
    return max(shown, key=lambda label: found[label] / normalization.length(question.choice_text(label)))
