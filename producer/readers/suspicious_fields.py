"""Detecting files whose question is in a field other than its name suggests, which accuracies would not reveal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from producer.readers.field_names import PARTS, spelled
from producer.readers.parts import Parts
from producer.readers.record import FieldTrouble, Record, shown_value

__all__ = ["refuse_doubtful_questions"]

#: With fewer rows, a repeated text is not suspicious.
_LEAST_ROWS = 3


def refuse_doubtful_questions(head: Sequence[tuple[Record, Parts]]) -> None:
    """Raise FieldTrouble if most questions are bare numbers, or the same text while a similar field varies."""
    texts = [each.question.strip() for _, each in head if isinstance(each.question, str)]
    if not texts:
        return
    record, parts = head[0]
    field = parts.used.question
    if sum(text.isdigit() for text in texts) * 2 > len(texts):
        better = max(_texts_beside(record, parts), key=lambda name: len(str((record.fields or {})[name])), default="")
        raise _doubtful(field, f"most are numbers, like {shown_value(texts[0])}.", better)
    text, times = Counter(texts).most_common(1)[0]
    if len(texts) < _LEAST_ROWS or times * 2 <= len(texts):
        return
    for name, value in parts.rest.items():
        if spelled(name) in PARTS["question"] and isinstance(value, str):
            others = [each.rest.get(name) for _, each in head]
            if len({each for each in others if isinstance(each, str)}) * 2 > len(others):
                raise _doubtful(field, f"most rows have {shown_value(text)}, while {name!r} varies.", name)


def _texts_beside(record: Record, parts: Parts) -> list[str]:
    used = parts.used.all
    return [name for name, value in (record.fields or {}).items() if name not in used and isinstance(value, str)]


def _doubtful(field: str | None, message: str, better: str) -> FieldTrouble:
    hint = f"Use --map question={better or 'FIELD'}, or question={field} if this is intended."
    return FieldTrouble(field or "question", message, hint, kind="may not be the question")
