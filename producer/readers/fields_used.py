"""Reporting which fields of a file the parts of its questions were taken from, as names can be misleading.

A file whose `answer` is an old model's output and whose key is `gold_label` is as readable as one with the key in
`answer`; and ids in a column called `No.` are not recognised as such.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from producer.readers.answers import names_a_choice, no_key
from producer.readers.field_names import names_of
from producer.readers.parts import Parts, answers_of
from producer.readers.record import Record

__all__ = ["UsedFields"]

#: Maximum number of fields that are listed individually; of more, only the first and the last are shown.
MOST_NAMED = 5
#: Maximum number of unused fields that are listed.
MOST_UNUSED = 12
#: Stands for a field if the file is an object of questions by id.
_KEY = "the key of each question"


@dataclass(frozen=True, slots=True)
class UsedFields:
    """The fields, in the file's spelling, from which the parts of its first records were taken."""

    question: tuple[str, ...]
    #: Empty if the layout implies the choices: yes and no.
    choices: tuple[str, ...]
    #: Empty if no question has a key.
    answer: tuple[str, ...]
    #: Other fields that could be the answer, judging by name and value.
    also_there: tuple[str, ...]
    #: Empty if all ids are hashes of the content.
    id: tuple[str, ...]
    #: These three are empty if no question has such a field.
    subject: tuple[str, ...]
    context: tuple[str, ...]
    gold_passages: tuple[str, ...]
    #: Fields that are none of these.
    unused: tuple[str, ...]

    @classmethod
    def of(cls, extracted: Sequence[tuple[Record, Parts]]) -> UsedFields:
        """Collect the fields that the parts of these records were taken from."""
        used = [parts.used for _, parts in extracted]
        answer = _distinct(parts.used.answer for _, parts in extracted if not no_key(parts.answer, parts.choices))
        others = _distinct(name for record, parts in extracted for name in _others(record, parts))
        return cls(
            question=_distinct(each.question for each in used),
            choices=_distinct(name for each in used for name in each.choices),
            answer=answer,
            also_there=tuple(name for name in others if name not in answer),
            id=_distinct(parts.used.id or (record.key and _KEY) for record, parts in extracted),
            subject=_distinct(each.subject for each in used),
            context=_distinct(name for each in used for name in each.contexts),
            gold_passages=_distinct(each.gold for each in used),
            unused=_distinct(name for _, parts in extracted for name in parts.rest),
        )

    def describe(self) -> str:
        """Describe the fields: `question ← stem · choices ← A, B, C · answer ← answer (also there: label) · id ← qid`.

        A part that no field holds is left out, except the two that the user would miss: the answer and the id. Without
        an answer, the fields that are not used are listed, as one of them may be the key.
        """
        others = f" (also there: {_listed(self.also_there)})" if self.also_there else ""
        shown = {
            "question": _listed(self.question),
            "choices": _listed(self.choices),
            "answer": f"{_listed(self.answer) or 'none'}{others}",
            "id": _listed(self.id) or "none",
            "subject": _listed(self.subject),
            "context": _listed(self.context),
            "gold passages": _listed(self.gold_passages),
        }
        found = [f"{part} ← {names}" for part, names in shown.items() if names]
        if self.unused and not self.answer:
            found.append(f"not used: {self.listed_unused()}")
        return " · ".join(found)

    def listed_unused(self) -> str:
        """Return the first of the fields that are not used."""
        more = ", …" if len(self.unused) > MOST_UNUSED else ""
        return ", ".join(self.unused[:MOST_UNUSED]) + more

    def to_json(self) -> dict[str, Any]:
        """Return the fields for `--json`."""
        return asdict(self)


def _others(record: Record, parts: Parts) -> Iterator[str]:
    """Yield unused fields of the record that could be the answer."""
    fields = record.fields or {}
    for name in answers_of(fields, names_of(tuple(fields))):
        if name not in parts.used.all and names_a_choice(parts.given(fields[name])):
            yield name


def _distinct(names: Iterable[str | None]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for name in names if name))


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= MOST_NAMED else f"{names[0]} to {names[-1]}"
