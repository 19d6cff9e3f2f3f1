"""Every question of the report, packed: the page unpacks it in the browser, where it is text and never HTML.

Two kinds of parcels, each zlib-compressed JSON in base64, an alphabet in which nothing can end a script element. The
first holds what is searched and sorted by, column by column; the others what a row shows when it is opened, so that a
page of many thousand questions with long prompts opens at once. Of runs over the same questions only the first says
what they are, and the prompts only where they differ from its.
"""

from __future__ import annotations

import base64
import json
import math
import zlib
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from contract.ledger import Run
from contract.question import Question
from contract.spec import RunSpec
from contract.verdict import MAJORITY, Verdict
from producer.export.columns import UNSETTLED, iso
from producer.question_view import HIT, shown_prompts

__all__ = ["PER_PARCEL", "Table"]

#: Opened rows in one parcel: unpacking it must not be felt.
PER_PARCEL = 100
#: Decimals of scores and confidences: as many as the margin has. The exported files have more.
_DECIMALS = 4


class _Asked(NamedTuple):
    """What one run says of its questions."""

    spec: RunSpec
    #: Number of its first question.
    start: int
    #: Whether its prompts are, word for word, those of the first run with these questions.
    same_prompts: bool
    #: Outcomes, choices, confidences and latencies.
    columns: tuple[list[Any], ...]


class Table:
    """Gathers rows, run by run; `index` and `parcels` are complete after `close`."""

    def __init__(self) -> None:
        self.index = ""
        self.parcels: list[str] = []
        self._questions: list[tuple[Any, ...]] = []
        #: Hashes of the prompts that the first run with a question asked it with.
        self._prompts: list[int] = []
        #: Digest of questions → number of the first of them, and the spec of the first run with them. Equal digests
        #: mean equal questions in equal order.
        self._starts: dict[str, tuple[int, RunSpec]] = {}
        self._runs: list[_Asked] = []
        self._rows = 0
        self._details: list[dict[str, Any]] = []

    def begin(self, run: Run) -> None:
        """The questions that follow are those of `run`, in its order."""
        spec = run.spec
        start, first = self._starts.setdefault(spec.questions_digest, (len(self._questions), spec))
        # Another model alone changes no prompt, and making one takes a tenth of the time. Passages may differ.
        same_prompts = (
            spec is not first and spec.rag is None and spec.model_copy(update={"model": first.model}) == first
        )
        self._runs.append(_Asked(spec, start, same_prompts, ([], [], [], [])))

    def add(self, question: Question, verdict: Verdict | None) -> None:
        """Take in the next question of the run that was begun."""
        spec, start, same_prompts, columns = self._runs[-1]
        number = start + len(columns[0])
        new = number == len(self._questions)
        detail = _detail(verdict) if verdict else {}
        if new or not same_prompts:
            prompts = tuple(shown_prompts(spec, question, verdict))
            if new:
                self._prompts.append(hash(prompts))
            if new or hash(prompts) != self._prompts[number]:
                detail["prompts"] = _without_question(prompts, question)
        if new:
            right = ",".join(question.right)
            self._questions.append(
                (question.id, question.subject or "", right, question.question, question.choices, self._rows)
            )
            detail |= {"context": question.context, "metadata": question.metadata}
        for column, value in zip(columns, _row(verdict), strict=True):
            column.append(value)
        self._rows += 1
        self._details.append({name: value for name, value in detail.items() if value})
        if len(self._details) == PER_PARCEL:
            self._pack_details()

    def close(self) -> None:
        """No more rows come."""
        if self._details:
            self._pack_details()
        runs = [[each.start, each.columns] for each in self._runs]
        self.index = _packed([_columns(self._questions), runs])

    def _pack_details(self) -> None:
        self.parcels.append(_packed(self._details))
        self._details = []


def _without_question(prompts: Iterable[str], question: Question) -> list[list[str]]:
    """What stands before, between and behind the question's text, which the page has already."""
    return [prompt.split(question.question) for prompt in prompts]


def _columns(rows: Sequence[Sequence[Any]]) -> list[Sequence[Any]]:
    """Like stands beside like, which packs better."""
    return list(zip(*rows, strict=True))


def _row(verdict: Verdict | None) -> tuple[Any, ...]:
    """What one run says of a question, as far as it is searched and sorted by."""
    if verdict is None:
        return UNSETTLED, "", None, None
    latency = round(verdict.latency_ms, 1) if verdict.latency_ms else None
    return verdict.outcome.value, verdict.choice or "", _finite(verdict.confidence), latency


def _detail(verdict: Verdict) -> dict[str, Any]:
    """What an opened row shows of what one run said, besides the row itself."""
    return {
        "scores": {label: _finite(score) for label, score in verdict.choice_scores.items()},
        "passages": [
            [f"{each.rank}. {each.id}, score {each.score:.6g}{'' if each.shown else ', no room for it'}", each.text]
            for each in verdict.passages
        ],
        "raw": verdict.raw_text,
        "facts": _facts(verdict),
    }


def _facts(verdict: Verdict) -> list[tuple[str, str]]:
    facts = {
        "error": f"{verdict.error.type}: {verdict.error.message}" if verdict.error else "",
        "rule": verdict.rule,
        "judge": verdict.judge_reason,
        "margin": "" if verdict.margin is None else f"{verdict.margin:.4f} {_unit(verdict)}",
        "label mass": "" if verdict.label_mass is None else f"{verdict.label_mass:.6f}",
        "rotations": _rotations(verdict) if verdict.rotations else "",
        "retrieval": HIT[verdict.retrieval_hit],
        "truncated": "yes" if verdict.truncated else "",
        "tokens": f"{verdict.prompt_tokens:,} prompt, {verdict.completion_tokens:,} completion",
        "times": f"queued {verdict.queued_ms:,.1f} ms, generate call {verdict.latency_ms:,.1f} ms",
        "attempts": str(verdict.attempts),
        "by": f"{verdict.worker}, batch {verdict.batch_id} of {verdict.batch_size}" if verdict.worker else "",
        "settled": iso(verdict.settled_at) if verdict.settled_at else "",
    }
    return [(name, value) for name, value in facts.items() if value]


def _rotations(verdict: Verdict) -> str:
    chosen = ", ".join(choice or "none" for choice in verdict.rotation_choices)
    return f"right in {verdict.rotations_right} of {verdict.rotations}" + (f", chosen: {chosen}" if chosen else "")


def _unit(verdict: Verdict) -> str:
    if verdict.rule == MAJORITY:
        return "of the texts"
    return f"nats {verdict.rule.replace('-', ' ')}" if verdict.rule.startswith("per-") else "nats"


def _finite(value: float | None) -> float | str | None:
    """Rounded; what JSON has no number for, by name."""
    if value is None:
        return None
    return round(value, _DECIMALS) if math.isfinite(value) else str(value)


def _packed(content: Any) -> str:
    plain = json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
    return base64.b64encode(zlib.compress(plain, 6)).decode("ascii")
