"""Results of mode `likelihood` under every normalization, so that one run yields both `acc` and `acc_norm`."""

from __future__ import annotations

import math

from contract.choice_order import orders
from contract.mode import Normalization
from contract.question import Question
from contract.spec import RunSpec
from contract.verdict import Verdict

__all__ = ["HOW", "METRIC", "right_by", "sums"]

#: lm-evaluation-harness's metric for each normalization of log-likelihoods; per token, which it has not, lighteval's.
METRIC = {
    Normalization.NONE: "acc",
    Normalization.CHARACTER: "acc_norm",
    Normalization.BYTE: "acc_bytes",
    Normalization.TOKEN: "acc_norm_token",
    Normalization.MUTUAL_INFO: "acc_mutual_info",
}
#: How choices are compared under each.
HOW = {
    Normalization.NONE: "by the sum",
    Normalization.CHARACTER: "per character",
    Normalization.BYTE: "per byte",
    Normalization.TOKEN: "per token",
    Normalization.MUTUAL_INFO: "by mutual information",
}
#: Digits kept of a sum that was divided by a length and multiplied by it again: later digits are rounding errors, which
#: must not make equal sums differ.
_DECIMALS = 9


def sums(question: Question, verdict: Verdict, spec: RunSpec) -> list[float]:
    """Return each choice's log-likelihood, summed over its tokens, in nats; nan if the verdict has none."""
    scores, unconditional = verdict.choice_scores, verdict.unconditional_scores
    return [
        round(scores.get(label, math.nan) * length + unconditional.get(label, 0.0), _DECIMALS)
        for label, length in zip(question.labels, _lengths(question, verdict, spec.normalization), strict=True)
    ]


def right_by(question: Question, verdict: Verdict, spec: RunSpec) -> dict[Normalization, bool]:
    """Return whether the likeliest choice is right by the sum, per character and per byte.

    Per token, too, if the verdict has the tokens of the choices. Whether it is by mutual information, only the outcomes
    of runs normalized so tell. Empty for runs in other modes, for circular ones, whose verdicts have the scores of one
    rotation only, and for a verdict without scores.
    """
    if not spec.mode.scores_choices or spec.circular or not verdict.choice_scores:
        return {}
    # In the order in which they were shown, because the first of several equal choices is chosen.
    shown, labels, right = orders(question, spec)[0], question.labels, question.right
    return {
        normalization: labels[max(shown, key=scores.__getitem__)] in right
        for normalization, scores in _scores(question, verdict, spec).items()
    }


def _scores(question: Question, verdict: Verdict, spec: RunSpec) -> dict[Normalization, list[float]]:
    """Return normalization → score of each choice."""
    found = sums(question, verdict, spec)
    wanted = [Normalization.NONE, Normalization.CHARACTER, Normalization.BYTE]
    if verdict.choice_tokens:
        wanted.append(Normalization.TOKEN)
    return {
        each: [total / length for total, length in zip(found, _lengths(question, verdict, each), strict=True)]
        for each in wanted
    }


def _lengths(question: Question, verdict: Verdict, normalization: Normalization) -> list[int]:
    """Return the divisor for the log-likelihood of each choice."""
    tokens = verdict.choice_tokens
    return [
        normalization.length(choice, tokens.get(label, 1))
        for label, choice in zip(question.labels, question.choices, strict=True)
    ]
