"""Naming the rows that ask the same question with different keys, of which one must be wrong."""

from __future__ import annotations

from collections.abc import Iterator, Set
from itertools import islice

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


def _pairs(file: QuestionFile, contradicted: Set[int]) -> Iterator[str]:
    """Yield a description of the first two rows that contradict each other, for each of these questions."""
    first: dict[int, tuple[Row, Question]] = {}
    done: set[int] = set()
    for row in file.rows():
        question = row.question
        if question is None or not question.right or (asked := asked_hash(question)) not in contradicted:
            continue
        earlier, same = first.setdefault(asked, (row, question))
        if asked not in done and right_hash(same) != right_hash(question):
            done.add(asked)
            yield f"{_key(earlier, same)}, {_key(row, question)}: {shown_value(question.question)}"


def _key(row: Row, question: Question) -> str:
    called = "" if row.content_id else f" ({question.id})"
    right = " and ".join(shown_value(question.choice_text(label)) for label in question.right)
    return f"{row.file}:{row.line}{called} says {right}"
