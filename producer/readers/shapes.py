"""Recognising questions in a shape that is not read, to say where they are, or what is expected instead."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice, pairwise
from typing import Any, NamedTuple

from contract.errors import QuestionFileError
from contract.question import MAX_CHOICES
from producer.readers.field_names import names_of
from producer.readers.record import Record

__all__ = ["IsQuestion", "Place", "extraction", "place_of_questions", "refuse_row_per_choice"]

IsQuestion = Callable[[Mapping[str, Any]], bool]
#: Number of members that are looked at on each level, and number of levels.
_MOST_MEMBERS = 50
_MOST_LEVELS = 8
#: A place that needs no quotes in jq.
_JQ_NAMES = re.compile(r"[A-Za-z_]\w*(\[\]|\.[A-Za-z_]\w*)*", re.ASCII)


class Place(NamedTuple):
    """Where questions are."""

    #: As in `data[].paragraphs[].qas[]`.
    path: str
    #: Whether this path leads to all questions: no other field has any.
    has_all: bool


def place_of_questions(found: object, is_question: IsQuestion, levels: int = _MOST_LEVELS) -> Place | None:
    """Return where in `found` there are questions; None if there are none."""
    inside: Iterable[tuple[str, object]] = ()
    if isinstance(found, Mapping):
        inside = ((f".{name}", value) for name, value in found.items())
    elif isinstance(found, list):
        inside = (("[]", value) for value in found)
    members = islice(inside, _MOST_MEMBERS)
    for step, value in members:
        if place := _place(value, is_question, levels):
            path = step.lstrip(".") + (place.path if place.path[:1] in {"", "["} else f".{place.path}")
            others = members if isinstance(found, Mapping) else ()
            return Place(path, place.has_all and not any(_place(other, is_question, levels) for _, other in others))
    return None


def _place(value: object, is_question: IsQuestion, levels: int) -> Place | None:
    """Return the place in `value`, with an empty path if it is a question itself."""
    if isinstance(value, Mapping) and is_question(value):
        return Place("", has_all=True)
    return place_of_questions(value, is_question, levels - 1) if levels else None


def extraction(place: Place, *, in_rows: bool = False) -> str:
    """Return the advice to write the questions at `place` into a file, with a jq command if its path leads to all.

    If `in_rows`, the place is relative to some object of the file, of which nothing else is known.
    """
    path = place.path
    command = ""
    if place.has_all and _JQ_NAMES.fullmatch(path):
        path = re.sub(r"(?<=\w)(?=[.[]|$)", "?", path).replace("[]", "[]?") if in_rows else path
        command = f", for example with jq -c '{'.. | ' if in_rows else ''}.{path}' FILE > questions.jsonl"
    return f"write those to a file of their own{command}."


def refuse_row_per_choice(records: Iterable[Record], shown: str) -> None:
    """Raise QuestionFileError if the records seem to be one choice each, with the question repeated in each."""
    rows = list(records)
    again = [row for row, following in pairwise(rows) if _only_another_choice(row, following)]
    # With two choices for each question, half of the rows are followed by one with the same question.
    if not again or len(again) * 3 < len(rows):
        return
    if len(again) == len(rows) - 1 >= MAX_CHOICES:  # more than one question has choices
        raise _always_the_same(rows, shown)
    untyped = again[0].untyped
    example = "question,A,B,C,answer" if untyped else '{"question": "…", "choices": ["…", "…"], "answer": "A"}'
    raise QuestionFileError(
        "successive rows repeat the question, as if each had one of its choices.",
        path=again[0].file or shown,
        line=again[0].line,
        field=names_of(tuple(again[0].fields or ())).question,
        hint=f"Expected one row per question, with all of its choices: {example}.",
    )


def _always_the_same(rows: Sequence[Record], shown: str) -> QuestionFileError:
    """Return the error for a file that begins with `rows`, which all have one text where the question is looked for."""
    row = rows[0]
    fields = row.fields or {}
    name = names_of(tuple(fields)).question
    others = [each for each, value in fields.items() if each != name and isinstance(value, str)]
    which = f", such as {', '.join(others)}" if others else ""
    return QuestionFileError(
        f"the first {len(rows)} rows have the same text here, which cannot be the question of each.",
        path=row.file or shown,
        line=row.line,
        field=name,
        hint=f"Name the field that has the question with --map question=FIELD{which}.",
    )


def _only_another_choice(row: Record, following: Record) -> bool:
    """Whether two rows with the same fields have the same question, but are not the same."""
    one, other = row.fields or {}, following.fields or {}
    asked = _question(row)
    same = isinstance(asked, str) and bool(asked.strip()) and asked == _question(following)
    return same and one.keys() == other.keys() and one != other


def _question(record: Record) -> object:
    fields = record.fields or {}
    name = names_of(tuple(fields)).question
    return fields[name] if name else None
