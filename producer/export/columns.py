"""One row of results.csv and results.parquet: the columns, in their order, and what stands in each.

`correct` is true or false for questions with a key to which the model was heard, and empty for all others: a failed
question is not a wrong one. A question without a verdict has the outcome `unsettled`. What was cut off has two columns:
`truncated` speaks of the answer's text, `passages_left_out` of the prompt.
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
from contract.sanitize import for_cell
from contract.verdict import Outcome, Verdict
from producer.stats.denominators import HEARD

__all__ = ["COLUMNS", "MEANINGS", "UNSETTLED", "Row", "cells_of", "iso", "values_of"]

#: Column → what stands in it, for the reference.
MEANINGS = {
    "run_id": "The run's name and the first eight digits of its fingerprint.",
    "question_id": "The question's id in its file, or the hash of its content.",
    "subject": "As the file has it.",
    "outcome": "`correct`, `wrong`, `unanswered`, `failed`, `answered` (without a key), `unsettled` (no verdict).",
    "correct": "Whether the choice is right; empty without a key, without a verdict, and where the question failed.",
    "answer": "The key's label; several right ones with commas between them.",
    "choice": "Label of the choice that the model made.",
    "choice_text": "That choice's text.",
    "confidence": "Share of the choice among all of them, 0 to 1: of their probabilities, or of the texts (`vote`).",
    "margin": "Best score minus the second best; 0 is a tie, of which the first is taken.",
    "choice_scores": "JSON: label → the score by which the choices were compared.",
    "raw_text": "What the model wrote; if it was cut off in reasoning that its chat template had begun, with that"
    " beginning.",
    "rule": "Name of the rule that read or chose the choice.",
    "mode": "How the run scores.",
    "model": "The model that the run asks.",
    "retrieved_ids": "JSON: ids of all passages that were retrieved, best first, shown or not.",
    "retrieval_scores": "JSON: their scores.",
    "retrieval_hit": "Whether a passage that answers the question was shown, where the file names one.",
    "passages_left_out": "How many of the retrieved passages the prompt had no room for.",
    "truncated": "Whether the model's text ran into `max_tokens`: the share of such questions is `rates.truncated` in"
    " summary.json.",
    "prompt_tokens": "Tokens of the question's prompts, each once; with `judge`, those of the gradings too.",
    "completion_tokens": "Tokens that the model wrote; with `judge`, those of the grades too.",
    "attempts": "How often workers began to score it.",
    "error_type": "Of a failed question: the kind of error.",
    "error_message": "Of a failed question: what went wrong.",
    "batch_id": "The worker's batch that it was gathered into.",
    "batch_size": "How many questions were in that batch.",
    "worker": "Who settled it.",
    "queued_ms": "From publishing its message to the generate call.",
    "latency_ms": "The generate call, as long as this question waited for it.",
    "settled_at": "When its verdict was made, in UTC.",
    "metadata": "JSON: what the file says of the question besides.",
    "rotation_choices": "JSON: of a `circular` run, the label chosen in each rotation, as the file calls it; the"
    " question is right only if all are. The scores are those of the first rotation with the choice of most.",
    "simulated": "Whether the simulated engine made the answer up, so that the row means nothing.",
}
COLUMNS = tuple(MEANINGS)
UNSETTLED = "unsettled"
#: For what people wrote, whose whole numbers may be larger than orjson's. `json.dumps` would make one per call.
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
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
            outcome is Outcome.CORRECT if answer is not None and outcome in HEARD else None,
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
            verdict.passages_left_out if passages else None,
            verdict.truncated,
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
            list(verdict.rotation_choices) or None,
            verdict.simulated,
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
    """JSON of floats and names; orjson, because this is most of an export's work."""
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
        "passages_left_out",
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
    "rotation_choices": _json,
    "simulated": _word,
}
_TO_TEXT = [(at, _WRITTEN.get(name, for_cell)) for at, name in enumerate(COLUMNS) if name not in _PLAIN]
