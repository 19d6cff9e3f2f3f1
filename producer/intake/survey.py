"""Looking through a question file: is every row good, which are taken, and what is their digest?

Questions that are taken wait on disk (`spool`), and troubles are only counted, so that a file may be larger than
memory: whoever wants the bad rows reads them again (`rejected_rows`).
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from contract.errors import QuestionFileError, nearest
from contract.question import Body, Question
from producer.intake.bad_rows import BadRows
from producer.intake.duplicates import Repeats, Seen
from producer.intake.profile import Keys, lost_backslash, same_choices
from producer.intake.selection import EVERYTHING, Sampler, Selection
from producer.intake.spool import Spool
from producer.readers import QuestionFile, Row, Source, understand

__all__ = ["Digest", "Inspector", "Survey", "rejected_rows", "survey", "taken"]

#: Subjects that are remembered, to say what there is when an unknown one is asked for.
MOST_SUBJECTS = 1000


class Digest:
    """What identifies a sequence of questions, gathered one by one."""

    def __init__(self) -> None:
        self._sum = hashlib.sha256()
        self.count = 0
        #: Questions with a context of their own.
        self.with_context = 0
        self.lost_backslashes = 0
        #: Questions with a text that stands in two choices.
        self.same_choices = 0
        self.first: Question | None = None
        self.keys = Keys()
        self._repeats = Repeats()

    def add(self, question: Question) -> Body:
        """Take one more into account; return it as it counts."""
        body = question.body()
        self._sum.update(body.canonical + b"\n")
        self.count += 1
        self.with_context += question.context is not None
        # In JSON both characters are written with their letter, and few texts have that behind a backslash.
        if b"\\b" in body.canonical or b"\\f" in body.canonical:
            self.lost_backslashes += lost_backslash(question)
        self.same_choices += same_choices(question)
        self.first = self.first or question
        self.keys.add(question)
        self._repeats.add(question)
        return body

    def repeated(self) -> int:
        """How many ask what one before them asks, as `Repeats` has it."""
        return self._repeats.count()

    def hexdigest(self) -> str:
        """SHA-256 over the canonical forms in order, as 64 hex digits."""
        return self._sum.hexdigest()


@dataclass(frozen=True, slots=True)
class Survey:
    """What the look found."""

    file: QuestionFile
    #: Rows looked at, good and bad.
    rows: int
    #: Rows that cannot be asked, and how many there are of each kind of trouble.
    rejected: int
    kinds: Counter[str]
    digest: Digest
    #: The questions that are taken, in order.
    bodies: Spool

    @property
    def source(self) -> Source:
        """Where the questions come from."""
        return self.file.source

    @property
    def good(self) -> int:
        """Rows that can be asked."""
        return self.rows - self.rejected


@dataclass
class Inspector:
    """Tells good rows from bad ones, and remembers how many and why. For one reading of the file."""

    file: QuestionFile
    rows: int = 0
    troubles: BadRows = field(default_factory=BadRows)
    subjects: set[str] = field(default_factory=set)
    _seen: Seen = field(default_factory=Seen)
    #: Content hash → how often it stood before.
    _times: Counter[str] = field(default_factory=Counter)

    def good(self) -> Iterator[Question]:
        """Questions of the good rows."""
        return (row for row in self.judged() if isinstance(row, Question))

    def bad(self) -> Iterator[tuple[Row, QuestionFileError]]:
        """The bad rows with their troubles."""
        for row in self.judged():
            if not isinstance(row, Question):
                yield row

    def judged(self) -> Iterator[Question | tuple[Row, QuestionFileError]]:
        """Every row: its question, or the row and its trouble."""
        with closing(self._seen):
            for row in self.file.rows():
                self.rows += 1
                question, trouble = self._judge(row)
                if question is not None:
                    self._seen.add(question.id, row.line)
                    if len(self.subjects) < MOST_SUBJECTS and question.subject:
                        self.subjects.add(question.subject)
                    yield question
                elif trouble is not None:
                    self.troubles.add(trouble)
                    yield row, trouble

    def _judge(self, row: Row) -> tuple[Question | None, QuestionFileError | None]:
        if row.question is None:
            return None, row.trouble
        earlier = self._seen.line_of(row.question.id)
        if earlier is None:
            return row.question, None
        if row.content_id:
            return self._again(row.question), None
        return None, QuestionFileError(
            f"{row.question.id!r} stands on line {earlier} already.",
            path=row.file,
            line=row.line,
            field="id",
            hint="Give each question its own id, or ignore the ids with --map id=.",
            kind="stands there twice",
        )

    def _again(self, question: Question) -> Question:
        """The same question under the next free id: the second one is …-2, wherever the two stand."""
        self._times[question.id] += 1
        number = self._times[question.id] + 1
        while self._seen.line_of(f"{question.id}-{number}") is not None:
            number += 1
        return question.model_copy(update={"id": f"{question.id}-{number}"})

    def refuse(self) -> None:
        """Raise one QuestionFileError for all troubles, if there are any."""
        if self.troubles.count:
            raise self.troubles.refusal(self.file.source.shown, self.rows, "rows")


def survey(
    source: Source,
    selection: Selection = EVERYTHING,
    *,
    skip_bad: bool = False,
    lookers: Sequence[Callable[[Question], None]] = (),
    change: Callable[[Question], Question] | None = None,
) -> Survey:
    """Read the whole file (with a limit, as far as it takes) and check every row of it.

    A question that is taken is taken as `change` makes it. The `lookers` are shown every one, in order.

    Raises QuestionFileError that lists the bad rows, unless `skip_bad`; and for a file without a good row.
    """
    inspector = Inspector(understand(source))
    digest, spool = Digest(), Spool()

    def take(questions: Iterable[Question]) -> None:
        for question in map(change, questions) if change else questions:
            spool.add(digest.add(question))
            for look in lookers:
                look(question)

    sampler = Sampler(selection) if selection.sample else None
    try:
        (sampler.watch if sampler else take)(_wanted(inspector, selection))
    except QuestionFileError as fatal:
        if not inspector.troubles.count:
            raise
        raise _with_earlier(fatal, inspector) from None
    if not skip_bad:
        inspector.refuse()
    places = sampler.places() if sampler else None
    if not (digest.count or places):
        raise _nothing(inspector, selection)
    if places is not None:
        take(_sampled(inspector.file, selection, places))
    return Survey(inspector.file, inspector.rows, inspector.troubles.count, inspector.troubles.kinds, digest, spool)


def _wanted(inspector: Inspector, selection: Selection) -> Iterator[Question]:
    good = inspector.good()
    return islice(filter(selection.wants, good) if selection.subjects else good, selection.limit)


def _sampled(file: QuestionFile, selection: Selection, places: frozenset[int]) -> Iterator[Question]:
    """Those at `places` among the wanted rows, which are known only after a first reading."""
    found = 0
    for place, question in enumerate(_wanted(Inspector(file), selection)):
        if place in places:
            found += 1
            yield question
    if found != len(places):
        hint = "Leave it alone and repeat the command."
        raise QuestionFileError("the file changed while it was read.", path=file.source.shown, hint=hint)


def _with_earlier(fatal: QuestionFileError, inspector: Inspector) -> QuestionFileError:
    listed = "".join(f"\n  {each}" for each in [*inspector.troubles.shown, fatal])
    message = f"reading stopped at line {fatal.line}, after {inspector.troubles.count:,} bad rows:{listed}"
    return QuestionFileError(message, path=inspector.file.source.shown)


def _nothing(inspector: Inspector, selection: Selection) -> QuestionFileError:
    if inspector.rows > inspector.troubles.count and selection.subjects:
        wanted = ", ".join(sorted(selection.subjects))
        there = sorted(inspector.subjects)
        hint = nearest(min(selection.subjects), there) or f"There are: {', '.join(there[:20]) or 'none'}."
        return QuestionFileError(f"no question of subject {wanted}.", path=inspector.file.source.shown, hint=hint)
    hint = "Every row of it was skipped as bad." if inspector.rows else "There is no row in it."
    return QuestionFileError("no question in it.", path=inspector.file.source.shown, hint=hint)


def taken(found: Survey) -> Iterator[Question]:
    """The questions that the survey chose."""
    return (Question.model_validate_json(body.canonical) for body in found.bodies)


def rejected_rows(found: Survey) -> Iterator[dict[str, Any]]:
    """What `rejected.jsonl` says: file, line, field, kind, reason and the row itself, read again from the file."""
    bad = Inspector(found.file).bad()
    for row, trouble in islice(bad, found.rejected):
        reason = f"{trouble.message} {trouble.hint}".strip()
        where = {"file": row.file, "line": row.line, "field": trouble.field}
        yield {**where, "kind": trouble.kind, "reason": reason, "row": row.raw}
