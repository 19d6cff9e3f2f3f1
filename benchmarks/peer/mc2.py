"""MC2, the probability of all right choices of a question together, for the comparison with lm-evaluation-harness."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from contract.question import Question
from contract.verdict import Verdict
from producer.stats import Calibration

__all__ = ["compare_mc2", "marked", "mc2_of"]


def marked(choices: Sequence[str], right: Sequence[int]) -> dict[str, list[int]]:
    """Return which of `choices` are right, in the format of TruthfulQA, for lm_eval."""
    return {"labels": [int(i in right) for i in range(len(choices))]}


def mc2_of(pairs: Sequence[tuple[Question, Verdict]], summary: Mapping[str, Any]) -> dict[str, float]:
    """Return question id → probability of its right choices. Raises AssertionError if `summary` tells another mean."""
    found = {}
    for question, verdict in pairs:
        alone = Calibration()
        alone.add(question, verdict)
        mean = alone.key_probability()
        assert mean is not None
        found[question.id] = mean.value
    told = summary["calibration"]["key_probability"]
    assert told["of"] == len(pairs)
    assert abs(told["value"] - fmean(found.values())) < 1e-6  # it has six decimals
    return found


def compare_mc2(theirs: Mapping[str, float], ours: Mapping[str, float]) -> dict[str, float]:
    """Return the means over the questions of `ours`, and the largest difference in a question."""
    return {
        "mc2 lm_eval": fmean(theirs[name] for name in ours),
        "mc2 mcqueue": fmean(ours.values()),
        "mc2 max difference": max(abs(theirs[name] - own) for name, own in ours.items()),
    }
