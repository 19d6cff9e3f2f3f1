"""A separate answer file (`--answers`): one answer per line, in the order of the questions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from contract.errors import QuestionFileError
from producer.readers.field_names import spelled
from producer.readers.format import Format
from producer.readers.parts import SEPARATE_ANSWER
from producer.readers.record import Record, Records
from producer.readers.source import Source
from producer.readers.text import Text, text_of

__all__ = ["with_answers"]


def with_answers(found: Format, source: Source) -> Format:
    """Return `found`, with the answers of a separate answer file added to its records, if there is one."""
    path = source.how.answers
    if path is None:
        return found
    if path.is_fifo():
        message = "is a pipe, which can be read only once."
        raise QuestionFileError(message, path=path, hint="Write the answers to a file.")
    answers = text_of(path, str(path), source.how.encoding)
    _refuse_unequal_counts(answers, found.records, source)
    return replace(found, records=partial(_paired, found.records, answers))


def _refuse_unequal_counts(answers: Text, records: Records, source: Source) -> None:
    """Raise QuestionFileError unless there is an answer for each question.

    All of them are counted before any is used: after a line too many, every question would have another one's answer.
    """
    answered = max((number for number, line in enumerate(answers.lines(), start=1) if line.strip()), default=0)
    asked = sum(1 for _ in records())
    if answered != asked:
        what = "more" if answered > asked else "fewer"
        message = f"{what} answers than questions: {answered:,} for {asked:,}."
        hint = (
            f"Write one answer per line, in the order of {source.shown}, without a header. A blank line is a question"
            " without a key; at the end of the file, write -1 instead."
        )
        raise QuestionFileError(message, path=answers.shown, hint=hint)


def _paired(records: Records, answers: Text) -> Iterator[Record]:
    """Yield the records, each with its line of the answer file; a blank one is None."""
    for record, line in zip(records(), answers.lines(), strict=False):
        if record.fields is None:
            yield record
        else:
            # Drop its own `answer`, which would make it fit our own layout, and any field named like SEPARATE_ANSWER.
            own = {
                name: value
                for name, value in record.fields.items()
                if name != "answer" and spelled(name) != spelled(SEPARATE_ANSWER)
            }
            # A nested question may have such a field too: of two, the first counts.
            yield record._replace(fields={SEPARATE_ANSWER: line.strip() or None, **own})
