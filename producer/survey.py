"""The first look at a question file: is every row good, which are taken, and what is their digest?

Only ids and the troubles are kept, so that a file may be larger than memory; `taken` reads the same rows again.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple

from contract.errors import QuestionFileError
from contract.question import Question
from producer.readers import Row, Source, read_questions

__all__ = ["Digest", "Rejection", "Selection", "Survey", "changed", "rejected_rows", "survey", "taken"]

#: Troubles that are spelled out before the rest is only counted.
MOST_SHOWN = 20


@dataclass(frozen=True, slots=True)
class Selection:
    """Which of the good rows are asked: all, the first `limit`, or `sample` of them in the file's order."""

    limit: int | None = None
    sample: int | None = None
    seed: int = 0


class Rejection(NamedTuple):
    """A row that is not asked."""

    line: int
    field: str | None
    reason: str


class Digest:
    """What identifies a sequence of questions, gathered one by one."""

    def __init__(self) -> None:
        self._sum = hashlib.sha256()
        self.count = 0
        self.without_key = 0
        self.first: Question | None = None
        self._chance = 0.0

    def watching(self, questions: Iterable[Question]) -> Iterator[Question]:
        """`questions`, each taken into account as it passes."""
        for question in questions:
            self._sum.update(question.canonical() + b"\n")
            self.count += 1
            self.without_key += question.answer is None
            self.first = self.first or question
            self._chance += 1 / len(question.choices)
            yield question

    def hexdigest(self) -> str:
        """SHA-256 over the canonical forms in order, as 64 hex digits."""
        return self._sum.hexdigest()

    @property
    def chance(self) -> float:
        """Share that guessing gets right: the mean of one in so many choices."""
        return self._chance / self.count


@dataclass(frozen=True, slots=True)
class Survey:
    """What the first look found."""

    source: Source
    selection: Selection
    #: Rows looked at, good and bad.
    rows: int
    #: Record number → why it is left out.
    rejected: dict[int, Rejection]
    #: Positions among the good rows of those in the sample; None without one.
    positions: frozenset[int] | None
    digest: Digest

    @property
    def good(self) -> int:
        """Rows that can be asked."""
        return self.rows - len(self.rejected)


@dataclass
class _Inspector:
    """Tells good rows from bad ones and remembers why."""

    source: Source
    rows: int = 0
    rejected: dict[int, Rejection] = field(default_factory=dict)
    #: Question id → line it first stood on.
    lines: dict[str, int] = field(default_factory=dict)
    shown: list[QuestionFileError] = field(default_factory=list)

    def good(self) -> Iterator[Question]:
        """Questions of the good rows."""
        for row in read_questions(self.source):
            self.rows += 1
            trouble = row.trouble or self._duplicate(row)
            if row.question is not None and trouble is None:
                self.lines[row.question.id] = row.line
                yield row.question
            elif trouble is not None:
                self._reject(row, trouble)

    def _duplicate(self, row: Row) -> QuestionFileError | None:
        if row.question is None or row.question.id not in self.lines:
            return None
        earlier = self.lines[row.question.id]
        return QuestionFileError(
            f"{row.question.id!r} stands on line {earlier} already.",
            path=self.source.shown,
            line=row.line,
            field="id",
            hint="Give each question its own id; without ids, take out the question that stands there twice.",
        )

    def _reject(self, row: Row, trouble: QuestionFileError) -> None:
        self.rejected[row.number] = Rejection(row.line, trouble.field, f"{trouble.message} {trouble.hint}".strip())
        if len(self.shown) < MOST_SHOWN:
            self.shown.append(trouble)

    def refuse(self) -> None:
        """Raise one QuestionFileError for all troubles, if there are any."""
        total = len(self.rejected)
        if total == 1:
            raise self.shown[0]
        if total:
            listed = "".join(f"\n  {each}" for each in self.shown)
            rest = f"\n  … and {total - len(self.shown)} more." if total > len(self.shown) else ""
            raise QuestionFileError(
                f"{total} of {self.rows} rows are bad; correct them, or leave them out with --skip-bad:{listed}{rest}",
                path=self.source.shown,
            )


EVERYTHING = Selection()


def survey(source: Source, selection: Selection = EVERYTHING, *, skip_bad: bool = False) -> Survey:
    """Read the whole file (with a limit, as far as it takes) and check every row of it.

    Raises QuestionFileError that lists the bad rows, unless `skip_bad`; and for a file without a good row.
    """
    inspector = _Inspector(source)
    digest = Digest()
    positions = None
    good = islice(inspector.good(), selection.limit)
    try:
        count = sum(1 for _ in (good if selection.sample else digest.watching(good)))
    except QuestionFileError as fatal:
        if not inspector.rejected:
            raise
        raise _with_earlier(fatal, inspector) from None
    if not skip_bad:
        inspector.refuse()
    if not count:
        raise QuestionFileError("no question in it.", path=source.shown, hint=_why_none(inspector))
    if selection.sample:
        positions = frozenset(random.Random(selection.seed).sample(range(count), min(selection.sample, count)))
    found = Survey(source, selection, inspector.rows, inspector.rejected, positions, digest)
    if positions is not None:
        # Only now is it known which rows are in the sample: a second reading, for the digest of those.
        for _ in digest.watching(taken(found)):
            pass
    return found


def _with_earlier(fatal: QuestionFileError, inspector: _Inspector) -> QuestionFileError:
    listed = "".join(f"\n  {each}" for each in [*inspector.shown, fatal])
    message = f"reading stopped at line {fatal.line}, after {len(inspector.rejected)} bad rows:{listed}"
    return QuestionFileError(message, path=inspector.source.shown)


def _why_none(inspector: _Inspector) -> str:
    return "Every row of it was skipped as bad." if inspector.rows else "There is no row in it."


def taken(found: Survey) -> Iterator[Question]:
    """The questions that the survey chose, read again from the file."""
    rows = (row for row in read_questions(found.source) if row.number not in found.rejected)
    for position, row in enumerate(islice(rows, found.selection.limit)):
        if row.trouble is not None:
            raise changed(found.source)
        if row.question is not None and (found.positions is None or position in found.positions):
            yield row.question


def rejected_rows(found: Survey) -> Iterator[dict[str, Any]]:
    """What `rejected.jsonl` says: line, field, reason and the row itself, read again from the file."""
    if not found.rejected:
        return
    for row in islice(read_questions(found.source), found.rows):
        if row.number in found.rejected:
            yield {**found.rejected[row.number]._asdict(), "row": row.raw}


def changed(source: Source) -> QuestionFileError:
    """The file was not the same when it was read again."""
    return QuestionFileError(
        "the file changed while it was read.", path=source.shown, hint="Leave it alone and repeat the command."
    )
