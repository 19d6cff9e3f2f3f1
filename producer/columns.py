"""One row of results.csv and results.parquet: the columns, in their order, and what stands in each.

`correct` is true or false for questions with a key to which the model was heard, and empty for all others: a failed
question is not a wrong one. A question without a verdict has the outcome `unsettled`. `truncated` is true where the
answer ran into `max_tokens`, and where passages were left out because the prompt had no room for them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import orjson

from contract.ledger import Run
from contract.question import Question
from contract.verdict import Outcome, Verdict

__all__ = ["COLUMNS", "UNSETTLED", "iso", "result_row", "result_values"]

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
_UNKNOWN = dict.fromkeys(COLUMNS)
#: For what people wrote, whose whole numbers may be larger than orjson's. `json.dumps` would make one per call.
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
#: Outcomes where the model was heard, on a question with a key.
_HEARD = frozenset({Outcome.CORRECT, Outcome.WRONG, Outcome.UNANSWERED})


def result_values(run: Run, question: Question, verdict: Verdict | None) -> dict[str, Any]:
    """The row as values, by column and in the order of COLUMNS; None is not known.

    `choice_scores` is a dict of floats, `retrieved_ids` and `retrieval_scores` are lists, `settled_at` is in
    milliseconds since the epoch, and `metadata` is JSON.
    """
    right = ",".join(question.right) or None
    metadata = _json(question.metadata) if question.metadata else None
    if verdict is None:
        return {
            **_UNKNOWN,
            "run_id": run.run_id,
            "question_id": question.id,
            "subject": question.subject,
            "outcome": UNSETTLED,
            "answer": right,
            "mode": run.spec.mode.value,
            "model": run.spec.model,
            "metadata": metadata,
        }
    has_key = question.answer is not None and verdict.outcome in _HEARD
    return {
        "run_id": run.run_id,
        "question_id": question.id,
        "subject": question.subject,
        "outcome": verdict.outcome.value,
        "correct": verdict.outcome is Outcome.CORRECT if has_key else None,
        "answer": right,
        "choice": verdict.choice,
        "choice_text": question.choice_text(verdict.choice) if verdict.choice in question.labels else None,
        "confidence": _rounded(verdict.confidence),
        "margin": _rounded(verdict.margin),
        "choice_scores": {label: round(score, 6) for label, score in verdict.choice_scores.items()} or None,
        "raw_text": verdict.raw_text,
        "rule": verdict.rule,
        "mode": run.spec.mode.value,
        "model": run.spec.model,
        "retrieved_ids": [each.id for each in verdict.passages] or None,
        "retrieval_scores": [round(each.score, 6) for each in verdict.passages] or None,
        "retrieval_hit": verdict.retrieval_hit,
        "truncated": verdict.truncated or verdict.passages_left_out > 0,
        "prompt_tokens": verdict.prompt_tokens,
        "completion_tokens": verdict.completion_tokens,
        "attempts": verdict.attempts,
        "error_type": verdict.error.type if verdict.error else None,
        "error_message": verdict.error.message if verdict.error else None,
        "batch_id": verdict.batch_id,
        "batch_size": verdict.batch_size,
        "worker": verdict.worker,
        "queued_ms": round(verdict.queued_ms, 3),
        "latency_ms": round(verdict.latency_ms, 3),
        "settled_at": _milliseconds(verdict.settled_at) if verdict.settled_at else None,
        "metadata": metadata,
    }


def result_row(run: Run, question: Question, verdict: Verdict | None) -> list[Any]:
    """Cells in the order of COLUMNS: texts and numbers, and None for what is not known (to `csv`, an empty cell)."""
    cells = result_values(run, question, verdict)
    for column, to_text in _TO_TEXT.items():
        if cells[column] is not None:
            cells[column] = to_text(cells[column])
    return list(cells.values())


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


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 6)


def _word(fact: bool) -> str:
    return "true" if fact else "false"


def _named(score: float) -> float | str:
    """Infinities and NaN, which JSON does not know, by name."""
    return score if math.isfinite(score) else str(score)


def _scores_by_label(scores: dict[str, float]) -> str:
    """JSON of floats and names, which orjson writes fifteen times as fast."""
    return orjson.dumps({label: _named(score) for label, score in scores.items()}).decode()


def _scores(scores: list[float]) -> str:
    return orjson.dumps([_named(score) for score in scores]).decode()


def _json(cell: dict[str, Any] | list[Any]) -> str:
    return _ENCODER.encode(cell)


#: Column → how results.csv writes its values, where they are neither texts nor numbers.
_TO_TEXT: dict[str, Callable[[Any], str]] = {
    "correct": _word,
    "choice_scores": _scores_by_label,
    "retrieved_ids": _json,
    "retrieval_scores": _scores,
    "retrieval_hit": _word,
    "truncated": _word,
    "settled_at": _iso,
}
