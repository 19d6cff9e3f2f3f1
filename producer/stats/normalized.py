"""Results of mode `likelihood` under every normalization, so that one run yields both `acc` and `acc_norm`."""

from __future__ import annotations

import math

from contract.choice_order import arrangements
from contract.question import Question
from contract.spec import Mode, Normalization, RunSpec
from contract.verdict import Verdict

__all__ = ["HOW", "METRIC", "right_by", "sums"]

#: lm-evaluation-harness's metric for each normalization of log-likelihoods.
METRIC = {
    Normalization.NONE: "acc",
    Normalization.CHARACTER: "acc_norm",
    Normalization.BYTE: "acc_bytes",
    Normalization.MUTUAL_INFO: "acc_mutual_info",
}
#: How choices are compared under each.
HOW = {
    Normalization.NONE: "by the sum",
    Normalization.CHARACTER: "per character",
    Normalization.BYTE: "per byte",
    Normalization.MUTUAL_INFO: "by mutual information",
}
#: Digits kept of a sum that was divided by a length and multiplied by it again: later digits are rounding errors, which
#: must not make equal sums differ.
_DECIMALS = 9


def sums(question: Question, verdict: Verdict, spec: RunSpec) -> dict[str, float]:
    """Return label → the choice's log-likelihood, summed over its tokens, in nats; nan if the verdict has none."""
    scores, unconditional = verdict.choice_scores, verdict.unconditional_scores
    return {
        label: round(
            scores.get(label, math.nan) * spec.normalization.length(choice) + unconditional.get(label, 0.0), _DECIMALS
        )
        for label, choice in zip(question.labels, question.choices, strict=True)
    }


def right_by(question: Question, verdict: Verdict, spec: RunSpec) -> dict[Normalization, bool]:
    """Return whether the likeliest choice is right under each normalization that the run has scores for.

    Empty for runs in other modes, and for circular ones, whose verdicts have the scores of one rotation only.
    """
    if spec.mode is not Mode.LIKELIHOOD or spec.circular:
        return {}
    # In the order in which they were shown, because the first of several equal choices is chosen.
    arrangement = arrangements(question, spec)[0]
    shown = [arrangement.original(label) for label in question.labels]
    return {
        normalization: max(shown, key=scores.__getitem__) in question.right
        for normalization, scores in _scores(question, verdict, spec).items()
    }


def _scores(question: Question, verdict: Verdict, spec: RunSpec) -> dict[Normalization, dict[str, float]]:
    """Return normalization → label → score. Mutual information needs scores that only a run that asks for it has."""
    found, own = sums(question, verdict, spec), spec.normalization
    scores: dict[Normalization, dict[str, float]] = {
        each: {label: found[label] / each.length(question.choice_text(label)) for label in question.labels}
        for each in Normalization
        if each is not Normalization.MUTUAL_INFO
    }
    if own is Normalization.MUTUAL_INFO:
        scores[own] = {label: verdict.choice_scores.get(label, math.nan) for label in question.labels}
    return scores
