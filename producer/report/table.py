"""Every question of the report, packed: the page unpacks it in the browser, where it is text and never HTML.

Two kinds of parcels, each zlib-compressed JSON in base64, an alphabet in which nothing can end a script element. The
first holds what is searched and sorted by, the others what a row shows when it is opened, so that a page of many
thousand questions with long prompts opens at once.
"""

from __future__ import annotations

import base64
import json
import math
import zlib
from typing import Any

from contract.ledger import Run
from contract.prompts import prompts_of
from contract.question import Question
from contract.verdict import MAJORITY, Verdict
from producer.columns import UNSETTLED, iso

__all__ = ["PER_PARCEL", "Table"]

#: Opened rows in one parcel: unpacking it must not be felt.
PER_PARCEL = 100
_HIT = {True: "a right passage was shown", False: "no right passage was shown", None: ""}


class Table:
    """Gathers rows; `index` and `parcels` are complete after `close`."""

    def __init__(self) -> None:
        self.index = ""
        self.parcels: list[str] = []
        self._rows: list[list[Any]] = []
        self._details: list[dict[str, Any]] = []

    def add(self, run_number: int, run: Run, question: Question, verdict: Verdict | None) -> None:
        """One question of the run with that number, counted from 0."""
        self._rows.append(
            [
                run_number,
                question.id,
                question.subject or "",
                verdict.outcome.value if verdict else UNSETTLED,
                ",".join(question.right),
                (verdict.choice if verdict else None) or "",
                _finite(verdict.confidence) if verdict else None,
                round(verdict.latency_ms, 1) if verdict and verdict.latency_ms else None,
                question.question,
                question.choices,
            ]
        )
        self._details.append(_detail(run, question, verdict))
        if len(self._details) == PER_PARCEL:
            self._pack_details()

    def close(self) -> None:
        """No more rows come."""
        if self._details:
            self._pack_details()
        self.index = _packed(self._rows)

    def _pack_details(self) -> None:
        self.parcels.append(_packed(self._details))
        self._details = []


def _detail(run: Run, question: Question, verdict: Verdict | None) -> dict[str, Any]:
    """What an opened row shows besides question and choices; what there is nothing of is left out."""
    detail: dict[str, Any] = {"context": question.context, "metadata": question.metadata}
    if verdict is not None:
        detail |= {
            "scores": {label: _finite(score) for label, score in verdict.choice_scores.items()},
            "passages": [
                [f"{each.rank}. {each.id}, score {each.score:.6g}{'' if each.shown else ', no room for it'}", each.text]
                for each in verdict.passages
            ],
            "raw": verdict.raw_text,
            "facts": _facts(verdict),
        }
    detail["prompts"] = prompts_of(question, run.spec, verdict.passages if verdict else ())
    return {name: value for name, value in detail.items() if value}


def _facts(verdict: Verdict) -> list[tuple[str, str]]:
    facts = {
        "error": f"{verdict.error.type}: {verdict.error.message}" if verdict.error else "",
        "rule": verdict.rule,
        "judge": verdict.judge_reason,
        "margin": "" if verdict.margin is None else f"{verdict.margin:.4f} {_unit(verdict)}",
        "label mass": "" if verdict.label_mass is None else f"{verdict.label_mass:.6f}",
        "rotations": f"right in {verdict.rotations_right} of {verdict.rotations}" if verdict.rotations else "",
        "retrieval": _HIT[verdict.retrieval_hit],
        "truncated": "yes" if verdict.truncated else "",
        "tokens": f"{verdict.prompt_tokens:,} prompt, {verdict.completion_tokens:,} completion",
        "times": f"queued {verdict.queued_ms:,.1f} ms, generate call {verdict.latency_ms:,.1f} ms",
        "attempts": str(verdict.attempts),
        "by": f"{verdict.worker}, batch {verdict.batch_id} of {verdict.batch_size}" if verdict.worker else "",
        "settled": iso(verdict.settled_at) if verdict.settled_at else "",
    }
    return [(name, value) for name, value in facts.items() if value]


def _unit(verdict: Verdict) -> str:
    if verdict.rule == MAJORITY:
        return "of the texts"
    return f"nats {verdict.rule.replace('-', ' ')}" if verdict.rule.startswith("per-") else "nats"


def _finite(value: float | None) -> float | str | None:
    """Rounded; what JSON has no number for, by name."""
    if value is None or math.isfinite(value):
        return None if value is None else round(value, 6)
    return str(value)


def _packed(content: Any) -> str:
    plain = json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
    return base64.b64encode(zlib.compress(plain, 6)).decode("ascii")
