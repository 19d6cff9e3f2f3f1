"""Checking all rows of a question file, selecting questions and computing their digest.

Selected questions are stored on disk (`spool`) and errors are only counted, so that a file may be larger than memory;
to get the bad rows, the file is read again (`rejected_rows`).
"""

from __future__ import annotations

import hashlib
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from contract.chunks import TOGETHER, chunks
from contract.errors import QuestionFileError, nearest
from contract.question import Body, Question
from contract.wording import number
from producer.intake.answer_keys import Keys
from producer.intake.bad_rows import BadRows, rejected_row
from producer.intake.duplicates import Repeats, Seen
from producer.intake.oddities import Oddities
from producer.intake.selection import EVERYTHING, Sampler, Selection
from producer.intake.spool import Spool
from producer.readers import QuestionFile, Row, Source, understand

__all__ = ["Digest", "Inspector", "Survey", "rejected_rows", "survey"]

#: Maximum number of subjects that are remembered, to suggest some if an unknown one is requested.
MOST_SUBJECTS = 1000


class Digest:
    """The hash that identifies a sequence of questions, and counts of their properties."""

    def __init__(self) -> None:
        self._sum = hashlib.sha256()
        self.count = 0
        #: Questions that have a context.
        self.with_context = 0
        self.oddities = Oddities()
        self.first: Question | None = None
        self.keys = Keys()
        self.repeats = Repeats()

    def add(self, questions: Sequence[Question]) -> list[Body]:
        """Add the next questions; return their bodies, which are what the hash covers."""
        bodies = [each.body() for each in questions]
        self._sum.update(b"".join(b"%b\n" % each.canonical for each in bodies))
        self.count += len(bodies)
        self.with_context += sum(each.context is not None for each in questions)
        self.first = self.first or next(iter(questions), None)
        for count in (self.oddities.add, self.keys.add, self.repeats.add):
            for each in questions:
                count(each)
        return bodies

    def hexdigest(self) -> str:
        """Return the SHA-256 of the canonical forms in order, as 64 hex digits."""
        return self._sum.hexdigest()


@dataclass
class Checked:
    """A question file, and the counts of its rows."""

    file: QuestionFile
    #: Number of rows checked, good and bad.
    rows: int = 0
    #: The errors of the bad rows.
    troubles: BadRows = field(default_factory=BadRows)

    @property
    def source(self) -> Source:
        """The source of the questions."""
        return self.file.source

    @property
    def good(self) -> int:
        """Number of good rows."""
        return self.rows - self.troubles.count

    def rows_shown(self) -> str:
        """`5 read + 1 skipped = 6 rows`."""
        return f"{self.good:,} read + {self.troubles.count:,} skipped = {number(self.rows, 'row')}"

    def rows_json(self) -> dict[str, Any]:
        """Return the counts, and how the file was read, for `--json`."""
        return {
            "rows": self.rows,
            "read": self.good,
            "skipped": self.troubles.count,
            "skipped_kinds": dict(self.troubles.kinds.most_common()),
            "layout": self.file.layout.name,
            "format": self.file.format,
            "fields": self.file.fields.to_json(),
            "answers_read": self.file.way.value,
            "labels_removed": self.file.key.removes_marks,
        }


@dataclass
class Survey(Checked):
    """The result of checking a question file."""

    digest: Digest = field(kw_only=True)
    #: The selected questions, in order.
    bodies: Spool = field(kw_only=True)
    #: Whether a limit left rows of the file unread.
    cut: bool = field(kw_only=True)
    #: Number of good rows that a sample was drawn from; None without one.
    among: int | None = field(kw_only=True)
    #: Requested subjects that no good row has, each with a hint; none if a limit left rows unread.
    absent: dict[str, str] = field(kw_only=True)

    def questions(self) -> Iterator[Question]:
        """Return an iterator over the selected questions, read from disk; only one at a time."""
        return (Question.model_validate_json(body.canonical) for body in self.bodies)


@dataclass
class Inspector(Checked):
    """Separates good rows from bad ones and collects the errors, in one pass over the file."""

    subjects: set[str] = field(default_factory=set)
    _seen: Seen = field(default_factory=Seen)
    #: Content hash → number of times that it has been repeated.
    _repeated: Counter[str] = field(default_factory=Counter)
    #: The rows that are still to be checked.
    _unchecked: Iterator[Row] = field(default_factory=lambda: iter(()))

    def questions(self) -> Iterator[Question]:
        """Return an iterator over the questions of the good rows."""
        return (row.question for row in self._judged() if row.question is not None)

    def bad(self) -> Iterator[tuple[Row, QuestionFileError]]:
        """Return an iterator over the bad rows with their errors."""
        return ((row, row.trouble) for row in self._judged() if row.trouble is not None)

    def _judged(self) -> Iterator[Row]:
        """Yield every row, with its question or its error."""
        with closing(self._seen):
            self._unchecked = self.file.rows()
            for row in map(self._judge, self._unchecked):
                self.rows += 1
                if row.question is not None:
                    self._seen.add(row.question.id, row.line, row.file)
                    if len(self.subjects) < MOST_SUBJECTS and row.question.subject:
                        self.subjects.add(row.question.subject)
                elif row.trouble is not None:
                    self.troubles.add(row.trouble)
                yield row

    def _judge(self, row: Row) -> Row:
        """Return the row; as a bad one if its id is already used, with another id if the file gives none."""
        if row.question is None or (earlier := self._seen.place_of(row.question.id)) is None:
            return row
        if row.content_id:
            return row._replace(question=self._with_free_id(row.question))
        of_file = "" if earlier.file == row.file else f" of {earlier.file}"
        trouble = QuestionFileError(
            f"{row.question.id!r} is already used on line {earlier.line}{of_file}.",
            path=row.file,
            line=row.line,
            field="id",
            hint="Give each question a unique id, or ignore the ids with --map id=.",
            kind="duplicate",
        )
        return row._replace(question=None, trouble=trouble)

    def _with_free_id(self, question: Question) -> Question:
        """Return the question with the next free id: the second occurrence gets …-2, regardless of its position."""
        self._repeated[question.id] += 1
        number = self._repeated[question.id] + 1
        while self._seen.place_of(f"{question.id}-{number}") is not None:
            number += 1
        return question.model_copy(update={"id": f"{question.id}-{number}"})

    def has_more_rows(self) -> bool:
        """Whether the file has a row after the last one checked, good or bad. It takes that row: checking ends here."""
        try:
            return next(self._unchecked, None) is not None
        except QuestionFileError:
            return True

    def nearest_subject(self, subject: str) -> str:
        """Return a hint at which subject of the file may be meant."""
        there = sorted(self.subjects)
        return nearest(subject, there) or f"Its subjects: {', '.join(there[:20]) or 'none'}."

    def refuse(self) -> None:
        """Raise one QuestionFileError for all errors, if there are any."""
        if self.troubles.count:
            raise self.troubles.refusal(self.source.shown, self.rows, "rows")


def survey(
    source: Source,
    selection: Selection = EVERYTHING,
    *,
    skip_bad: bool = False,
    observers: Sequence[Callable[[Question], None]] = (),
    change: Callable[[Question], Question] | None = None,
) -> Survey:
    """Read the whole file (with a limit, only as far as necessary) and check every row.

    `change` is applied to each selected question; the result is passed to all `observers`, in order.

    Raises QuestionFileError that lists the bad rows, unless `skip_bad`, and if no question is selected.
    """
    inspector = Inspector(understand(source))
    digest, spool = Digest(), Spool()

    def take(questions: Iterable[Question]) -> None:
        for chunk in chunks(map(change, questions) if change else questions, TOGETHER):
            spool.add(digest.add(chunk))
            for observe in observers:
                for question in chunk:
                    observe(question)

    sampler = Sampler(selection) if selection.sample else None
    subjects: set[str | None] = set()
    wanted = _wanted(inspector, selection)
    if selection.subjects:
        wanted = _noting_subjects(wanted, subjects)
    with _telling_bad_rows(inspector):
        if sampler:
            sampler.consider(wanted)
        else:
            take(wanted)
    if not skip_bad:
        inspector.refuse()
    places = sampler.places() if sampler else None
    if not (digest.count or places):
        raise _no_questions(inspector, selection)
    if places is not None:
        take(_sampled(inspector.file, selection, places))
    cut = digest.count == selection.limit and inspector.has_more_rows()
    return Survey(
        inspector.file,
        inspector.rows,
        inspector.troubles,
        digest=digest,
        bodies=spool,
        cut=cut,
        among=sampler.among if sampler else None,
        absent={} if cut else {each: inspector.nearest_subject(each) for each in sorted(selection.subjects - subjects)},
    )


def _noting_subjects(questions: Iterable[Question], subjects: set[str | None]) -> Iterator[Question]:
    """Yield `questions`, and add their subjects to `subjects`."""
    for question in questions:
        subjects.add(question.subject)
        yield question


def _wanted(inspector: Inspector, selection: Selection) -> Iterator[Question]:
    limit = selection.limit and min(selection.limit, sys.maxsize)
    return islice(filter(selection.wants, inspector.questions()), limit)


def _sampled(file: QuestionFile, selection: Selection, places: frozenset[int]) -> Iterator[Question]:
    """Yield the questions at `places`, which are known only after a first pass over the file."""
    found = 0
    for place, question in enumerate(_wanted(Inspector(file), selection)):
        if place in places:
            found += 1
            yield question
    if found != len(places):
        hint = "Repeat the command once it no longer changes."
        raise QuestionFileError("the file changed while it was being read.", path=file.source.shown, hint=hint)


@contextmanager
def _telling_bad_rows(inspector: Inspector) -> Iterator[None]:
    """If an error ends the reading, raise one that lists the bad rows before it as well."""
    try:
        yield
    except QuestionFileError as fatal:
        if not inspector.troubles.count:
            raise
        listed = "".join(f"\n  {each}" for each in [*inspector.troubles.shown, fatal])
        place = f" at line {fatal.line}," if fatal.line is not None else ""  # damaged data are on no line
        message = f"reading stopped{place} after {number(inspector.troubles.count, 'bad row')}:{listed}"
        raise QuestionFileError(message, path=inspector.source.shown) from None


def _no_questions(inspector: Inspector, selection: Selection) -> QuestionFileError:
    if inspector.good and selection.subjects:
        wanted, hint = ", ".join(sorted(selection.subjects)), inspector.nearest_subject(min(selection.subjects))
        return QuestionFileError(f"no questions of subject {wanted}.", path=inspector.source.shown, hint=hint)
    hint = "All of its rows were skipped as bad." if inspector.rows else "It has no rows."
    return QuestionFileError("contains no questions.", path=inspector.source.shown, hint=hint)


def rejected_rows(found: Survey) -> Iterator[dict[str, Any]]:
    """Yield the lines of `rejected.jsonl`, read again from the file."""
    for row, trouble in islice(Inspector(found.file).bad(), found.troubles.count):
        yield rejected_row(row.raw, trouble)
