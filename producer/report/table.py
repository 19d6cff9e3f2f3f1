"""The packed table of all questions, which the page unpacks in the browser and always treats as text, never as HTML.

There are two kinds of parcels, each zlib-compressed JSON in base64, whose alphabet cannot close a script element. The
first holds the values for searching and sorting, column by column; the others hold the details of opened rows, so that
a page with many thousand questions and long prompts opens at once. For runs over the same questions, only the first
with all of them stores the questions; those after it store a prompt only if it differs.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from contract.chunks import chunks
from contract.ledger import Run
from contract.question import Question
from contract.spec import RunSpec
from contract.verdict import Verdict
from producer.export.cells import named
from producer.export.columns import UNSETTLED
from producer.question_view import shown_prompts, verdict_facts

__all__ = ["PER_PARCEL", "Table"]

#: Row details per parcel, few enough that unpacking one is not noticeable.
PER_PARCEL = 100
#: Questions per piece in which the first parcel is written.
PER_PIECE = 1000
#: Decimals of scores and confidences, the same as for the margin. The exported files have more.
_DECIMALS = 4


class _RunRows(NamedTuple):
    """The table's data for one run."""

    spec: RunSpec
    #: Number of its first question.
    start: int
    #: Whether its prompts are identical to those of the first run with these questions.
    same_prompts: bool
    #: Outcomes, choices, confidences and latencies.
    columns: tuple[list[Any], ...]


class Table:
    """Gathers rows, run by run; `index` and `parcels` are complete after `close`."""

    def __init__(self) -> None:
        self.index = ""
        self.parcels: list[str] = []
        self._questions: list[tuple[Any, ...]] = []
        #: Hashes of each question's prompts in the first run with it.
        self._prompts: list[int] = []
        #: Digest of questions → the first run with all of them. Equal digests mean equal questions in equal order.
        self._firsts: dict[str, _RunRows] = {}
        self._runs: list[_RunRows] = []
        self._rows = 0
        self._details: list[dict[str, Any]] = []

    def begin(self, run: Run) -> None:
        """Start `run`; the questions that follow are its questions, in order."""
        spec, first = run.spec, self._firsts.get(run.spec.questions_digest)
        if first is None or len(first.columns[0]) < run.questions:  # none, or not all of its questions were written
            asked = _RunRows(spec, len(self._questions), same_prompts=False, columns=([], [], [], []))
            self._firsts[spec.questions_digest] = asked
        else:
            # A different model alone does not change the prompts, and rendering them takes a tenth of the time. With
            # retrieval the passages may differ.
            same_prompts = spec.rag is None and spec.model_copy(update={"model": first.spec.model}) == first.spec
            asked = _RunRows(spec, first.start, same_prompts, ([], [], [], []))
        self._runs.append(asked)

    def add(self, question: Question, verdict: Verdict | None) -> None:
        """Add the next question of the current run."""
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
            texts = question.question, question.choices
            self._questions.append((question.id, question.subject or "", question.key or "", *texts, self._rows))
            detail |= {"context": question.context, "metadata": question.metadata}
        for column, value in zip(columns, _row(verdict), strict=True):
            column.append(value)
        self._rows += 1
        self._details.append({name: value for name, value in detail.items() if value})
        if len(self._details) == PER_PARCEL:
            self._pack_details()

    def close(self) -> None:
        """Finish the table after the last row."""
        if self._details:
            self._pack_details()
        runs = [[each.start, each.columns] for each in self._runs]
        self.index = _packed(_index(_columns(self._questions), runs))

    def _pack_details(self) -> None:
        self.parcels.append(_packed([_json(self._details)]))
        self._details = []


def _without_question(prompts: Iterable[str], question: Question) -> list[list[str]]:
    """Return the prompts split at the question's text, which the page already has."""
    return [prompt.split(question.question) for prompt in prompts]


def _columns(rows: Sequence[Sequence[Any]]) -> list[Sequence[Any]]:
    """Transpose rows into columns, whose similar values compress better."""
    return list(zip(*rows, strict=True))


def _row(verdict: Verdict | None) -> tuple[Any, ...]:
    """Return the values of one run for a question that are searched and sorted by."""
    if verdict is None:
        return UNSETTLED, "", None, None
    latency = round(verdict.latency_ms, 1) if verdict.latency_ms else None
    return verdict.outcome.value, verdict.choice or "", _rounded(verdict.confidence), latency


def _detail(verdict: Verdict) -> dict[str, Any]:
    """Return the details of an opened row, besides the row itself."""
    return {
        "scores": {label: _rounded(score) for label, score in verdict.choice_scores.items()},
        "passages": [
            [f"{each.rank}. {each.id}, score {each.score:.6g}{'' if each.shown else ', did not fit'}", each.text]
            for each in verdict.passages
        ],
        "raw": verdict.raw_text,
        "facts": list(verdict_facts(verdict).items()),
    }


def _rounded(value: float | None) -> float | str | None:
    return None if value is None else named(round(value, _DECIMALS))


def _index(columns: Iterable[Sequence[Any]], runs: Any) -> Iterator[str]:
    """Yield `[columns, runs]` as JSON, in pieces: the texts of all questions may be a large part of the memory."""
    yield "[["
    for number, column in enumerate(columns):
        yield ",[" if number else "["
        for place, some in enumerate(chunks(column, PER_PIECE)):
            yield f"{',' if place else ''}{_json(some)[1:-1]}"
        yield "]"
    yield f"],{_json(runs)}]"


def _json(content: Any) -> str:
    return json.dumps(content, ensure_ascii=False, separators=(",", ":"))


def _packed(pieces: Iterable[str]) -> str:
    """Return a JSON text, given in `pieces`, as a parcel."""
    packer = zlib.compressobj(6)
    packed = [packer.compress(each.encode("utf-8", "replace")) for each in pieces]
    return base64.b64encode(b"".join([*packed, packer.flush()])).decode("ascii")
