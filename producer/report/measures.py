"""Measurements for a report that the summary does not have, counted while the results are streamed."""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from contract.ledger import Run
from contract.question import Question
from contract.verdict import Outcome, Verdict
from producer.stats.percentile import percentile

__all__ = ["NO_CHOICE", "Measures", "Spread", "Throughput", "steps", "throughput"]

#: Label for questions that were settled without a choice.
NO_CHOICE = "none"


@dataclass(frozen=True, slots=True)
class Spread:
    """Distribution of values: their median, 90th and 99th percentile, and maximum."""

    median: float
    p90: float
    p99: float
    largest: float

    @classmethod
    def of_values(cls, values: Sequence[float]) -> Spread | None:
        """Compute the distribution by nearest rank; None without values."""
        ranked = sorted(values)
        if not ranked:
            return None
        median, p90, p99 = (percentile(ranked, share) for share in (0.50, 0.90, 0.99))
        return cls(median, p90, p99, ranked[-1])


@dataclass
class Measures:
    """Counters that see each question once."""

    run: Run
    #: (label of the key, label chosen or NO_CHOICE) → number of questions with a key that did not fail; empty for runs
    #: with free answers.
    confusion: Counter[tuple[str, str]] = field(default_factory=Counter)
    #: Milliseconds, one value per question that was asked.
    latency_ms: array[float] = field(default_factory=lambda: array("d"))
    queued_ms: array[float] = field(default_factory=lambda: array("d"))
    #: Batch → its number of questions.
    batch_sizes: dict[str, int] = field(default_factory=dict)
    #: Seconds since the epoch, one value per verdict.
    settled_at: array[float] = field(default_factory=lambda: array("d"))

    def add(self, question: Question, verdict: Verdict | None) -> None:
        """Count one question."""
        if verdict is None:
            return
        self._add_choice(question, verdict)
        if not verdict.reused_from:
            self._add_times(verdict)

    def _add_choice(self, question: Question, verdict: Verdict) -> None:
        if question.answer is None or verdict.outcome is Outcome.FAILED or not self.run.spec.mode.chooses:
            return
        chosen = verdict.choice if verdict.choice in question.labels else None
        # With several right choices, the chosen one counts as the key, or else the first.
        key = chosen if chosen in question.right else question.answer
        self.confusion[key, chosen or NO_CHOICE] += 1

    def _add_times(self, verdict: Verdict) -> None:
        if verdict.settled_at:
            self.settled_at.append(verdict.settled_at)
        if verdict.latency_ms > 0:
            self.latency_ms.append(verdict.latency_ms)
            self.queued_ms.append(verdict.queued_ms)
        if verdict.batch_id:
            self.batch_sizes[verdict.batch_id] = verdict.batch_size


def steps(low: float, high: float, most: int) -> float:
    """Return a round width (1, 2 or 5 times a power of ten) that divides `low` to `high` into at most `most` pieces."""
    rough = (high - low) / most
    if rough <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(rough))
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * (1 - 1e-9))


#: Units of time and their seconds, the longest first.
_UNITS = (("h", 3600.0), ("min", 60.0), ("s", 1.0))
#: A unit is used from this many of it.
_LEAST_OF_UNIT = 5
#: A batch's verdicts come at once: pieces that hold few batches would show its rhythm as peaks and gaps.
_BATCHES_A_PIECE = 5
_MOST_PIECES = 40


class Throughput(NamedTuple):
    """Verdicts per piece of a run's time, which begins with the first generate call and ends with the last verdict."""

    unit: str
    unit_s: float
    #: Where each piece begins, in `unit`, and where the last one ends. All are equally long except the last.
    edges: list[float]
    verdicts: list[int]

    @property
    def rates(self) -> list[float]:
        """Verdicts per second in each piece."""
        spans = zip(self.verdicts, pairwise(self.edges), strict=True)
        return [count / ((end - start) * self.unit_s) for count, (start, end) in spans]


def throughput(settled_at: Sequence[float], started_at: float, batches: int) -> Throughput | None:
    """Return the verdicts over time in pieces of a round width; None without verdicts."""
    if not settled_at:
        return None
    began, ended = min(started_at, min(settled_at)), max(settled_at)
    span_s = max(ended - began, 1e-3)
    unit, unit_s = next((each for each in _UNITS if span_s >= _LEAST_OF_UNIT * each[1]), _UNITS[-1])
    span = span_s / unit_s
    width = steps(0.0, span, max(1, min(_MOST_PIECES, batches // _BATCHES_A_PIECE)))
    # A short rest is part of the last piece: a few verdicts, or none, would make a rate that says nothing.
    count = max(1, round(span / width))
    verdicts = [0] * count
    for at in settled_at:
        verdicts[min(int((at - began) / unit_s / width), count - 1)] += 1
    return Throughput(unit, unit_s, [*(at * width for at in range(count)), span], verdicts)
