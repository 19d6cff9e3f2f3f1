"""Naming the rows that ask the same question with different keys, of which one must be wrong."""

from __future__ import annotations

from collections.abc import Iterator, Set
from itertools import groupby, islice
from operator import attrgetter
from typing import NamedTuple

from contract.question import Question
from contract.wording import number
from producer.intake.duplicates import Repeats, asked_hash, right_hash
from producer.readers import QuestionFile, Row
from producer.readers.record import shown_value

__all__ = ["contradiction_warnings"]

#: Maximum number of pairs that are listed.
MOST_SHOWN = 5


def contradiction_warnings(repeats: Repeats, file: QuestionFile) -> list[str]:
    """Return a warning about the questions that occur with different keys, if there are any.

    The file is read again to name their rows, as `repeats` has only hashes.
    """
    contradicted = repeats.contradicted()
    if not contradicted:
        return []
    shown = min(len(contradicted), MOST_SHOWN)
    pairs = "".join(f"\n  {each}" for each in islice(_pairs(file, contradicted), shown))
    rest = len(contradicted) - shown
    more = f"\n  … and {rest:,} more." if rest else ""
    said = f"{number(len(contradicted), 'question')} repeated with another key for the same choices"
    return [f"warning: {said}: one of the keys must be wrong. Correct it, or remove the rows.{pairs}{more}"]


class _Place(NamedTuple):
    """Where a question is: its row, and the number of that in its file."""

    row: Row
    number: int

    def __str__(self) -> str:
        return f"{self.row.file}:{self.row.line}"


def _pairs(file: QuestionFile, contradicted: Set[int]) -> Iterator[str]:
    """Yield a description of the first two rows that contradict each other, for each of these questions."""
    first: dict[int, tuple[_Place, Question]] = {}
    done: set[int] = set()
    for place in _places(file):
        question = place.row.question
        if question is None or not question.right or (asked := asked_hash(question)) not in contradicted:
            continue
        earlier, same = first.setdefault(asked, (place, question))
        if asked not in done and right_hash(same) != right_hash(question):
            done.add(asked)
            numbered = str(earlier) == str(place)  # JSON may be all on one line
            keys = (_key(*each, numbered=numbered) for each in ((earlier, same), (place, question)))
            yield f"{', '.join(keys)}: {shown_value(question.question)}"


def _places(file: QuestionFile) -> Iterator[_Place]:
    for _, rows in groupby(file.rows(), attrgetter("file")):
        yield from (_Place(row, at) for at, row in enumerate(rows, start=1))


def _key(place: _Place, question: Question, *, numbered: bool) -> str:
    called = "" if place.row.content_id else f" ({question.id})"
    right = " and ".join(shown_value(question.choice_text(label)) for label in question.right)
    return f"{place}{f', record {place.number:,}' if numbered else ''}{called} says {right}"
