"""Calibration of the model's confidence: expected calibration error, its histogram, the Brier score, the key's share.

All are computed over the questions that have a key and that the model answered. Unanswered and failed questions have
no confidence and are excluded. The probabilities are normalized over the given choices: if scores are divided by the
choice's length, they are flatter than the model's own distribution; in `vote` they are fractions of the texts. In a
`circular` run they are those of the first rotation with the majority choice, and correctness is that of this choice,
whatever the other rotations chose.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import exp, isnan
from typing import Any

from contract.mode import Normalization, Output
from contract.question import Question
from contract.spec import RunSpec
from contract.verdict import MAJORITY, Outcome, Verdict
from producer.stats.denominators import ANSWERED
from producer.stats.normalized import HOW
from producer.stats.proportion import Mean, Sum

__all__ = ["EDGES", "PROBABILITIES", "Bin", "Calibration", "confidence_of", "probabilities"]

#: Description of a confidence that is a probability of the model, normalized over the given choices.
PROBABILITIES = "the softmax of the choices' log-probabilities"

BINS = 10
#: Bounds of the bins. Each bin includes its upper bound; the first one also includes 0.
EDGES = tuple(at / BINS for at in range(BINS + 1))


@dataclass(slots=True)
class Bin:
    """Answers whose confidence lies between two adjacent edges."""

    count: int = 0
    right: int = 0
    #: Sum of the confidences.
    claimed: float = 0.0

    @property
    def gap(self) -> float:
        """Absolute difference between mean confidence and accuracy, times the number of answers in the bin."""
        return abs(self.claimed - self.right)

    def to_json(self) -> dict[str, Any]:
        """Return count, mean confidence and accuracy; the latter two are null in an empty bin."""
        confidence, accuracy = (self.claimed / self.count, self.right / self.count) if self.count else (None, None)
        return {"count": self.count, "confidence": _rounded(confidence), "accuracy": _rounded(accuracy)}


@dataclass(slots=True)
class Calibration:
    """Sums from which the calibration figures are computed, of constant size for any number of questions."""

    bins: list[Bin] = field(default_factory=lambda: [Bin() for _ in range(BINS)])
    #: Number of answers with a probability for each choice, and the sum of their squared distances from the key.
    distributions: int = 0
    distance: float = 0.0
    #: Probability of the right choices, of each answer with a probability for each choice.
    on_key: Sum = field(default_factory=Sum)

    def add(self, question: Question, verdict: Verdict) -> None:
        """Count one question. Without a confidence, or with a missing score, it is excluded from that figure."""
        outcome, confidence = verdict.outcome, verdict.confidence
        if question.answer is None or outcome not in ANSWERED:
            return
        if confidence is not None and 0.0 <= confidence <= 1.0:
            into = self.bins[bisect_left(EDGES, confidence) - 1 if confidence else 0]
            into.count += 1
            into.right += _chose_right(question, verdict)
            into.claimed += confidence
        labels = question.labels
        shares = _shares(labels, verdict)
        if not shares:
            return
        self.on_key.add(sum([shares[labels.index(label)] for label in question.right]))
        # A distribution is measured against one right choice; with several, the ideal distribution is undefined.
        if not question.also_right:
            self.distributions += 1
            # Σ (p - y)², y being 1 for the key and 0 for the others
            self.distance += sum([p * p for p in shares]) + 1 - 2 * shares[labels.index(question.answer)]

    def include(self, other: Calibration) -> None:
        """Add the counts of `other`."""
        for mine, theirs in zip(self.bins, other.bins, strict=True):
            mine.count += theirs.count
            mine.right += theirs.right
            mine.claimed += theirs.claimed
        self.distributions += other.distributions
        self.distance += other.distance
        self.on_key.include(other.on_key)

    @property
    def of(self) -> int:
        """Number of answers with a confidence."""
        return sum(each.count for each in self.bins)

    def ece(self) -> float | None:
        """Return the expected calibration error, from 0 (perfectly calibrated) to 1; None without answers.

        ECE = Σ_b n_b/n · |accuracy_b - mean confidence_b| over ten bins of equal width, by the confidence in the
        chosen choice (`Verdict.confidence`). Source: Guo et al., "On calibration of modern neural networks", ICML
        2017, equation 3. It is biased upwards if there are few questions per bin.
        """
        return sum(each.gap for each in self.bins) / self.of if self.of else None

    def brier(self) -> float | None:
        """Return the multiclass Brier score, from 0 (certain and right) to 2 (certain and wrong); None without answers.

        Brier = 1/n · Σ_questions Σ_choices (p - y)², where y is 1 for the key and 0 for the others, and p as in
        `probabilities`, or the fraction of the texts (`vote`; texts that name no choice count for none, so that p need
        not sum to 1). Source: G. W. Brier, "Verification of forecasts expressed in terms of probability", Monthly
        Weather Review 78 (1950), which defines this score; the variant halved for two classes is another convention.
        """
        return self.distance / self.distributions if self.distributions else None

    def key_probability(self) -> Mean | None:
        """Return the mean of what the right choices have of `probabilities`, or of the texts (`vote`).

        Several right choices count together. For TruthfulQA's second kind of targets this is its MC2 (Lin et al.,
        "TruthfulQA: measuring how models mimic human falsehoods", ACL 2022).
        """
        return self.on_key.mean()

    def to_json(self) -> dict[str, Any]:
        """Return the content for summary.json. `of` answers are in the bins, `brier_of` in the Brier score."""
        bounded = zip(pairwise(EDGES), self.bins, strict=True)
        on_key = self.key_probability()
        return {
            "ece": _rounded(self.ece()),
            "of": self.of,
            "brier": _rounded(self.brier()),
            "brier_of": self.distributions,
            "key_probability": on_key.to_json() if on_key else None,
            "bins": [{"low": low, "high": high, **each.to_json()} for (low, high), each in bounded],
        }


def confidence_of(spec: RunSpec) -> str:
    """Describe the confidence of a run of `spec`: calibration asks whether it can be read as a probability.

    A normalized log-probability is no longer one, so the softmax of such scores is not a probability of the model.
    """
    if spec.mode.output is Output.TEXT:
        return "none: a single text has no confidence"
    found = PROBABILITIES
    if spec.mode.votes:
        found = "the fraction of the texts, not a model probability"
    elif spec.normalization is not Normalization.NONE:
        found = f"the softmax of scores {HOW[spec.normalization]}, not a model probability"
    return f"{found}, in the first rotation with the majority choice" if spec.circular else found


def _chose_right(question: Question, verdict: Verdict) -> bool:
    """Whether the choice that the confidence refers to is right; in a `circular` run that alone is not `correct`."""
    return verdict.choice in question.right if verdict.rotations else verdict.outcome is Outcome.CORRECT


def _shares(labels: Sequence[str], verdict: Verdict) -> list[float]:
    if verdict.rule == MAJORITY:
        return [verdict.choice_scores.get(label, 0.0) for label in labels]
    return probabilities(labels, verdict.choice_scores)


def probabilities(labels: Sequence[str], scores: Mapping[str, float]) -> list[float]:
    """Return the softmax of `scores` over `labels`, in their order: p_i = exp(s_i) / Σ_j exp(s_j).

    Empty if a label has no score or the scores give no distribution: NaN, infinite, or all minus infinity.
    """
    wanted = [scores[label] for label in labels if label in scores]
    if len(wanted) < len(labels):
        return []
    highest = max(wanted)
    weights = [exp(score - highest) for score in wanted]
    total = sum(weights)
    if isnan(total):  # from a NaN score, or from infinity minus infinity
        return []
    return [weight / total for weight in weights]


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 6)
