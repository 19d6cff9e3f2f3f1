"""Stability: whether questions get the same answers when they are asked alone instead of in a batch."""

from __future__ import annotations

import heapq
import random
from collections.abc import Iterator
from dataclasses import dataclass

from contract.engine_info import describe_differences, differing
from contract.errors import InputError
from contract.ledger import Ledger, Run
from contract.verdict import Outcome, Verdict
from workers.engines.base import Engine
from workers.pipeline import JudgeEngine, no_judges, score_batch
from workers.scoring import Item, versions

__all__ = ["Flip", "answered", "engine_differences", "stability"]

#: How many characters of a text are shown before the first difference, and from it on.
BEFORE, FROM = 20, 40


@dataclass(frozen=True, slots=True)
class Flip:
    """A question with another result when asked alone.

    The result is its choice, its grade by a judge, or the choices of its rotations if circular; or its text, of which
    only the part around the first difference is kept.
    """

    question_id: str
    in_batch: str | None
    alone: str | None
    #: Best score minus second best, in the batch: a near-tie may flip by rounding alone.
    margin: float | None


def answered(ledger: Ledger, run: Run) -> int:
    """Return how many questions of the run were answered and can be asked again. Raises InputError if none was."""
    counts = ledger.counts(run.run_id)
    failed = counts.of(Outcome.FAILED)
    if counts.settled == failed:
        far = f"{counts.settled:,} of {counts.total:,} settled" + (f", {failed:,} of them failed" if failed else "")
        raise InputError(
            f"No question of {run.run_id} was answered yet: {far}.",
            hint=f"python -m producer status {run.run_id} says what it waits for.",
        )
    return counts.settled - failed


def stability(
    ledger: Ledger,
    run: Run,
    engine: Engine,
    sample: int,
    seed: int = 0,
    judge_engine: JudgeEngine = no_judges,
) -> Iterator[Flip | None]:
    """Ask `sample` of the run's settled questions again, one at a time; yield for each how it changed, if it did.

    Each gets the same passages as before: nothing is retrieved again.
    """
    stored = ledger.results(run.run_id)
    settled = ((question, verdict) for question, verdict in stored if verdict and not verdict.error)
    draw = random.Random(seed)
    drawn = heapq.nsmallest(sample, settled, key=lambda _: draw.random())  # holds no more than the sample
    for question, before in drawn:
        (alone,) = score_batch([Item(question, run.spec, before.passages)], engine, judge_engine)
        begin = max(0, _first_difference(before.raw_text, alone.raw_text) - BEFORE)
        then, now = (_result(run, verdict, begin) for verdict in (before, alone))
        yield Flip(question.id, then, now, before.margin) if then != now else None


def _result(run: Run, verdict: Verdict, begin: int) -> str | None:
    """Return the result of a question; if that is a text, an excerpt of it from `begin` on."""
    if verdict.error:
        return f"failed ({verdict.error.message})"
    if verdict.outcome is Outcome.ANSWERED and not run.spec.mode.chooses:  # nobody graded it
        return _excerpt(verdict.raw_text, begin)
    if run.spec.mode.judged:
        return verdict.outcome.value
    if run.spec.circular:  # every rotation counts, not only the most frequent choice
        return " ".join(each or "–" for each in verdict.rotation_choices)
    return verdict.choice


def _first_difference(one: str, other: str) -> int:
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def _excerpt(text: str, begin: int) -> str:
    end = begin + BEFORE + FROM
    return f"{'…' if begin else ''}{text[begin:end]!r}{'…' if end < len(text) else ''}"


def engine_differences(ledger: Ledger, run: Run, engine: Engine) -> str:
    """Describe answer-relevant differences between `engine` and those that answered the run; empty if none."""
    now = {**versions(run.spec.mode), **engine.describe()}
    return describe_differences(differing([*(each.engine for each in ledger.engines(run.run_id)), now]))
