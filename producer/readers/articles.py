"""Splitting articles with several questions, as in RACE's own files, into one record per question.

Such a record has `questions`, a list of texts, `options`, a list of lists, and `answers`, a list, all of equal length;
its other fields, above all the article, apply to every question.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from contract.wording import number
from producer.readers.record import FieldTrouble, Record, Records

__all__ = ["is_article", "one_by_one"]

_HINT = "questions, options and answers must have one item per question."


def is_article(fields: Mapping[str, Any]) -> bool:
    """Whether a record is such an article: a list of question texts together with a list of lists of options."""
    if "questions" not in fields or "options" not in fields:
        return False
    questions, options = fields["questions"], fields["options"]
    return (
        isinstance(questions, list)
        and isinstance(options, list)
        and bool(questions)
        and all(isinstance(each, str) for each in questions)
        and all(isinstance(each, list) for each in options)
    )


def one_by_one(records: Records) -> Iterator[Record]:
    """Yield the records, with each article replaced by its questions."""
    for record in records():
        if record.fields is None or not is_article(record.fields):
            yield record
        else:
            yield from _questions(record, record.fields)


def _questions(record: Record, fields: Mapping[str, Any]) -> Iterator[Record]:
    questions, options, answers = fields["questions"], fields["options"], fields.get("answers")
    if len(options) != len(questions):
        yield _refused(record, "options", len(options), len(questions))
        return
    if answers is not None and not (isinstance(answers, Sequence) and len(answers) == len(questions)):
        found = len(answers) if isinstance(answers, Sequence) else 0
        yield _refused(record, "answers", found, len(questions))
        return
    beside = {name: value for name, value in fields.items() if name not in {"questions", "options", "answers"}}
    for at, (question, choices) in enumerate(zip(questions, options, strict=True)):
        alone = {**beside, "question": question, "options": choices}
        if answers is not None:
            alone["answer"] = answers[at]
        if isinstance(fields.get("id"), str | int):
            alone["id"] = f"{fields['id']}-{at + 1}"
        key = None if record.key is None else f"{record.key}-{at + 1}"
        yield record._replace(raw=alone, fields=alone, key=key)


def _refused(record: Record, field: str, found: int, expected: int) -> Record:
    message = f"found {found} for {number(expected, 'question')}."
    return record._replace(fields=None, trouble=FieldTrouble(field, message, _HINT, kind="not one per question"))
