"""One row of results.csv and results.parquet: the columns, in their order, and what stands in each.

`correct` is true or false for questions with a key to which the model was heard, and empty for all others: a failed
question is not a wrong one. A question without a verdict has the outcome `unsettled`. `truncated` is true where the
answer ran into `max_tokens`, and where passages were left out because the prompt had no room for them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import orjson

from contract.ledger import Run
from contract.question import Question
from contract.verdict import Outcome, Verdict
from producer.harmless import for_cell

__all__ = ["COLUMNS", "UNSETTLED", "Row", "cells_of", "iso", "values_of"]

COLUMNS = (
    "run_id",
    "question_id",
    "subject",
    "outcome",
    "correct",
    "answer",
    "choice",
    "choice_text",
    "confidence",
    "margin",
    "choice_scores",
    "raw_text",
    "rule",
    "mode",
    "model",
    "retrieved_ids",
    "retrieval_scores",
    "retrieval_hit",
    "truncated",
    "prompt_tokens",
    "completion_tokens",
    "attempts",
    "error_type",
    "error_message",
    "batch_id",
    "batch_size",
    "worker",
    "queued_ms",
    "latency_ms",
    "settled_at",
    "metadata",
)
UNSETTLED = "unsettled"
#: For what people wrote, whose whole numbers may be larger than orjson's. `json.dumps` would make one per call.
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
#: Outcomes where the model was heard, on a question with a key.
_HEARD = frozenset({Outcome.CORRECT, Outcome.WRONG, Outcome.UNANSWERED})
#: Looked up faster than `Outcome.value`, which is a function.
_WORDS = {outcome: outcome.value for outcome in Outcome}

#: What stands in a row, in the order of COLUMNS.
Row = Sequence[Any]
RowOf = Callable[[Question, Verdict | None], Row]


def values_of(run: Run) -> RowOf:
    """What makes the rows of `run` as values; None is not known.

    `choice_scores` is a dict of floats, `retrieved_ids` and `retrieval_scores` are lists, `settled_at` is in
    milliseconds since the epoch, and `metadata` is JSON.
    """
    run_id, mode, model = run.run_id, run.spec.mode.value, run.spec.model

    def values(question: Question, verdict: Verdict | None) -> Row:
        answer = question.answer
        right = ",".join(question.right) if question.also_right else answer
        metadata = _json(question.metadata) if question.metadata else None
        if verdict is None:
            known = {
                "run_id": run_id,
                "question_id": question.id,
                "subject": question.subject,
                "outcome": UNSETTLED,
                "answer": right,
                "mode": mode,
                "model": model,
                "metadata": metadata,
            }
            return tuple(map(known.get, COLUMNS))
        labels, outcome, choice = question.labels, verdict.outcome, verdict.choice
        confidence, margin, settled_at = verdict.confidence, verdict.margin, verdict.settled_at
        passages, error = verdict.passages, verdict.error
        return (
            run_id,
            question.id,
            question.subject,
            _WORDS[outcome],
            outcome is Outcome.CORRECT if answer is not None and outcome in _HEARD else None,
            right,
            choice,
            question.choices[labels.index(choice)] if choice in labels else None,
            None if confidence is None else round(confidence, 6),
            None if margin is None else round(margin, 6),
            {label: round(score, 6) for label, score in verdict.choice_scores.items()} or None,
            verdict.raw_text,
            verdict.rule,
            mode,
            model,
            [each.id for each in passages] if passages else None,
            [round(each.score, 6) for each in passages] if passages else None,
            verdict.retrieval_hit,
            verdict.truncated or (bool(passages) and verdict.passages_left_out > 0),
            verdict.prompt_tokens,
            verdict.completion_tokens,
            verdict.attempts,
            error.type if error else None,
            error.message if error else None,
            verdict.batch_id,
            verdict.batch_size,
            verdict.worker,
            round(verdict.queued_ms, 3),
            round(verdict.latency_ms, 3),
            _milliseconds(settled_at) if settled_at else None,
            metadata,
        )

    return values


def cells_of(run: Run) -> RowOf:
    """What makes the rows of `run` as cells: texts, harmless in a spreadsheet, numbers, and None for an empty cell."""
    values = values_of(run)

    def cells(question: Question, verdict: Verdict | None) -> Row:
        row = list(values(question, verdict))
        for at, to_text in _TO_TEXT:
            if (value := row[at]) is not None:
                row[at] = to_text(value)
        return row

    return cells


def iso(seconds: float) -> str:
    """`seconds` since the epoch as ISO 8601 in UTC, to the millisecond."""
    return _iso(_milliseconds(seconds))


def _milliseconds(seconds: float) -> int:
    """Cut off, as the standard library does it: after rounding to microseconds."""
    return round(seconds * 1_000_000) // 1000


def _iso(milliseconds: int) -> str:
    seconds, rest = divmod(milliseconds, 1000)
    return f"{_to_the_second(seconds)}.{rest:03}Z"


@lru_cache(maxsize=1024)
def _to_the_second(seconds: int) -> str:
    """Neighbouring rows share the second, and formatting it is most of the work."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def _word(fact: bool) -> str:
    return "true" if fact else "false"


def _named(score: float) -> float | str:
    """Infinities and NaN, which JSON does not know, by name."""
    return score if math.isfinite(score) else str(score)


def _scores_by_label(scores: dict[str, float]) -> str:
    """JSON of floats and names, which orjson writes fifteen times as fast."""
    found = orjson.dumps(scores)
    if b"null" in found:  # what it makes of infinities and NaN
        found = orjson.dumps({label: _named(score) for label, score in scores.items()})
    return found.decode()


def _scores(scores: list[float]) -> str:
    return orjson.dumps([_named(score) for score in scores]).decode()


def _json(cell: dict[str, Any] | list[Any]) -> str:
    return _ENCODER.encode(cell)


#: Columns that results.csv has as they are, being numbers or words of ours.
_PLAIN = frozenset(
    {
        "outcome",
        "answer",
        "confidence",
        "margin",
        "mode",
        "prompt_tokens",
        "completion_tokens",
        "attempts",
        "batch_size",
        "queued_ms",
        "latency_ms",
    }
)
#: Column → how results.csv writes it; all others are texts of strangers.
_WRITTEN: dict[str, Callable[[Any], str]] = {
    "correct": _word,
    "choice_scores": _scores_by_label,
    "retrieved_ids": _json,
    "retrieval_scores": _scores,
    "retrieval_hit": _word,
    "truncated": _word,
    "settled_at": _iso,
}
_TO_TEXT = [(at, _WRITTEN.get(name, for_cell)) for at, name in enumerate(COLUMNS) if name not in _PLAIN]
