"""The columns of results.csv and results.parquet, in order: each one's name, kind, meaning and values.

`correct` is true or false for questions with a key that did not fail, and empty for all others: a failed question is
not a wrong one. A question without a verdict has the outcome `unsettled`. Two columns concern truncation: `truncated`
refers to the answer's text, `passages_left_out` to the prompt.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from operator import attrgetter
from typing import Any

from contract.ledger import Run
from contract.question import Question
from contract.verdict import Outcome, Verdict
from producer.export.parts import Part
from producer.stats.denominators import RESPONDED

__all__ = ["COLUMNS", "NAMES", "UNSETTLED", "Column", "Kind", "Values", "milliseconds"]

UNSETTLED = "unsettled"

#: The values of a column, one per question; None means unknown or empty.
Values = list[Any]


class Kind(Enum):
    """What the values of a column are, which decides how they are written."""

    #: Text that anyone may have written.
    TEXT = auto()
    #: One of our own words, or labels.
    WORD = auto()
    NUMBER = auto()
    COUNT = auto()
    FACT = auto()
    #: Milliseconds since the epoch.
    TIME = auto()
    #: Label → score.
    SCORES = auto()
    TEXTS = auto()
    NUMBERS = auto()


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the results."""

    name: str
    kind: Kind
    #: For the generated reference.
    meaning: str
    #: Its values for some of the run's questions.
    values: Callable[[Run, Part], Values]


def _of_run(name: str, kind: Kind, meaning: str, value: Callable[[Run], Any]) -> Column:
    """Return a column that is the same for all questions."""
    return Column(name, kind, meaning, lambda run, part: [value(run)] * len(part))


def _of_question(name: str, kind: Kind, meaning: str, value: Callable[[Question], Any]) -> Column:
    """Return a column that is known before there is a verdict."""
    return Column(name, kind, meaning, lambda _, part: [value(question) for question, _ in part])


def _of_verdict(name: str, kind: Kind, meaning: str, value: Callable[[Verdict], Any] | None = None) -> Column:
    """Return a column that only the verdict tells: by default, its attribute of that name."""
    get = value or attrgetter(name)
    return Column(
        name, kind, meaning, lambda _, part: [None if verdict is None else get(verdict) for _, verdict in part]
    )


def _of_both(name: str, kind: Kind, meaning: str, value: Callable[[Question, Verdict], Any]) -> Column:
    """Return a column that compares the verdict with its question."""
    return Column(
        name,
        kind,
        meaning,
        lambda _, part: [None if verdict is None else value(question, verdict) for question, verdict in part],
    )


#: A faster lookup than `Outcome.value`, which is a property.
_WORDS: dict[Outcome | None, str] = {None: UNSETTLED, **{outcome: outcome.value for outcome in Outcome}}
#: For user data, whose integers may exceed orjson's range. `json.dumps` would create an encoder per call.
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


def _correct(question: Question, verdict: Verdict) -> bool | None:
    outcome = verdict.outcome
    return outcome is Outcome.CORRECT if question.answer is not None and outcome in RESPONDED else None


def _choice_text(question: Question, verdict: Verdict) -> str | None:
    return question.choice_text(verdict.choice) if verdict.choice in question.labels else None


def _margin(verdict: Verdict) -> float | None:
    margin = verdict.margin
    return margin and (round(margin, 6) or margin)  # a near-tie must not look like a tie


def milliseconds(seconds: float) -> int:
    """Return milliseconds, truncated as the standard library does, after rounding to microseconds."""
    return round(seconds * 1_000_000) // 1000


def _settled_at(verdict: Verdict) -> int | None:
    return milliseconds(verdict.settled_at) if verdict.settled_at else None


def _retrieval_scores(verdict: Verdict) -> list[float] | None:
    return [round(each.score, 6) for each in verdict.passages] or None


def _metadata(question: Question) -> str | None:
    """Return JSON; Parquet has it, too, because its values have no common type."""
    return _ENCODER.encode(question.metadata) if question.metadata else None


COLUMNS = (
    _of_run("run_id", Kind.TEXT, "The run's name and the first eight digits of its fingerprint.", attrgetter("run_id")),
    _of_question(
        "question_id",
        Kind.TEXT,
        "The question's id in its file, or the hash of its content.",
        attrgetter("id"),
    ),
    _of_question("subject", Kind.TEXT, "The subject, as in the file.", attrgetter("subject")),
    Column(
        "outcome",
        Kind.WORD,
        "`correct`, `wrong`, `unanswered`, `failed`, `answered` (without a key), `unsettled` (no verdict).",
        lambda _, part: [_WORDS[verdict.outcome if verdict else None] for _, verdict in part],
    ),
    _of_both(
        "correct",
        Kind.FACT,
        "Whether the choice is right; empty without a key, without a verdict, and if the question failed.",
        _correct,
    ),
    _of_question(
        "answer", Kind.WORD, "The key's label; several right ones are separated by commas.", attrgetter("key")
    ),
    _of_verdict("choice", Kind.TEXT, "Label of the model's choice."),
    _of_both("choice_text", Kind.TEXT, "That choice's text.", _choice_text),
    _of_verdict(
        "confidence",
        Kind.NUMBER,
        "Share of the choice among all choices, 0 to 1: of their probabilities, or of the texts (`vote`).",
        lambda verdict: None if verdict.confidence is None else round(verdict.confidence, 6),
    ),
    _of_verdict(
        "margin",
        Kind.NUMBER,
        "The best of `choice_scores` minus the second best; 0 is a tie, in which the first is chosen (in `vote`, the"
        " one named first).",
        _margin,
    ),
    _of_verdict(
        "choice_scores",
        Kind.SCORES,
        "JSON: label → the score by which the choices were compared: a log-probability in nats (in `likelihood` as"
        " `normalization` says, for example per character), or a share of the texts (`vote`).",
        lambda verdict: {label: round(score, 6) for label, score in verdict.choice_scores.items()} or None,
    ),
    _of_verdict(
        "raw_text",
        Kind.TEXT,
        "The text that the model generated, with the `answer_prefix` that it continues; if it was cut off within"
        " reasoning opened by its chat template, including that opening.",
    ),
    _of_verdict("rule", Kind.TEXT, "Name of the rule that extracted or selected the choice."),
    _of_run("mode", Kind.WORD, "Scoring mode of the run.", attrgetter("spec.mode.value")),
    _of_run("model", Kind.TEXT, "Model of the run.", attrgetter("spec.model")),
    _of_verdict(
        "retrieved_ids",
        Kind.TEXTS,
        "JSON: ids of all retrieved passages, best first, whether shown or not.",
        lambda verdict: [each.id for each in verdict.passages] or None,
    ),
    _of_verdict("retrieval_scores", Kind.NUMBERS, "JSON: their scores.", _retrieval_scores),
    _of_verdict(
        "retrieval_hit", Kind.FACT, "Whether a relevant passage was shown, if the file names the question's source."
    ),
    _of_verdict(
        "passages_left_out",
        Kind.COUNT,
        "Number of retrieved passages that did not fit in the prompt.",
        lambda verdict: verdict.passages_left_out if verdict.passages else None,
    ),
    _of_verdict(
        "truncated",
        Kind.FACT,
        "Whether the model's text was cut off, or one of its texts (`vote`, `circular`), at `max_tokens` or before that"
        " because its context was full: the shares of such questions are `rates.truncated` and"
        " `rates.context_full` in summary.json.",
    ),
    _of_verdict(
        "prompt_tokens",
        Kind.COUNT,
        "Tokens of the question's prompts, each counted once; with `judge`, including grading prompts.",
    ),
    _of_verdict("completion_tokens", Kind.COUNT, "Tokens generated by the model; with `judge`, including the grades."),
    _of_verdict(
        "attempts",
        Kind.COUNT,
        "How often workers started to score it, since `requeue --failed` if that asked it again.",
    ),
    _of_verdict(
        "error_type",
        Kind.TEXT,
        "For a failed question: the type of error.",
        lambda verdict: verdict.error and verdict.error.type,
    ),
    _of_verdict(
        "error_message",
        Kind.TEXT,
        "For a failed question: the error message.",
        lambda verdict: verdict.error and verdict.error.message,
    ),
    _of_verdict("batch_id", Kind.TEXT, "The batch that contained the question: worker, its process, number."),
    _of_verdict("batch_size", Kind.COUNT, "Number of questions in that batch."),
    _of_verdict("worker", Kind.TEXT, "The worker that settled it."),
    _of_verdict(
        "queued_ms",
        Kind.NUMBER,
        "Milliseconds from publishing its message to the generate call.",
        lambda verdict: round(verdict.queued_ms, 3),
    ),
    _of_verdict(
        "latency_ms",
        Kind.NUMBER,
        "Milliseconds that this question spent in the generate call.",
        lambda verdict: round(verdict.latency_ms, 3),
    ),
    _of_verdict("settled_at", Kind.TIME, "Time of its verdict, in UTC.", _settled_at),
    _of_question("metadata", Kind.TEXT, "JSON: the file's other fields for the question.", _metadata),
    _of_verdict(
        "rotation_choices",
        Kind.TEXTS,
        "JSON: in a `circular` run, the label chosen in each rotation, as labelled in the file; the first rotation"
        " shows the file's order, the second begins with B and ends with A, and so on. The question is correct only"
        " if all are. The scores are those of the first rotation with the majority choice.",
        lambda verdict: list(verdict.rotation_choices) or None,
    ),
    _of_verdict(
        "simulated", Kind.FACT, "Whether the simulated engine made up the answer, so that the row is meaningless."
    ),
    _of_verdict(
        "reused_from",
        Kind.TEXT,
        "The run in which the model was asked, if `enqueue --reuse` took the answer over; its times are then those of"
        " that run.",
        lambda verdict: verdict.reused_from or None,
    ),
)
NAMES = tuple(column.name for column in COLUMNS)
