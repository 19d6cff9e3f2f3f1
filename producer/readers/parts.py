"""The parts of a record (question, choices, answer, …), and the steps of extracting them that all layouts share."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, TypeGuard

from producer.readers.answers import Given
from producer.readers.choices import decoded
from producer.readers.field_names import CONTEXT_TEXTS, Names, spelled
from producer.readers.record import FieldTrouble

__all__ = [
    "SEPARATE_ANSWER",
    "Fields",
    "Parts",
    "Used",
    "answer_of",
    "answers_of",
    "are_ids",
    "context_of",
    "gold_ids",
    "parts_with_rest",
    "question_of",
]

Fields = Mapping[str, Any]
#: The field that receives the answer from a separate answer file. It normalises to `answer_key`, the most reliable
#: name, in a spelling that no file uses.
SEPARATE_ANSWER = "--answer-key"
#: Names that can only mean the answer key: they are used if the field with the most reliable name is empty.
_SURE = frozenset({"answer_key", "answer_idx", "answer_index", "answer_letter", "label", "labels", "correct_answer"})


class Used(NamedTuple):
    """The fields that a record's parts were taken from, spelled as in its file."""

    question: str | None = None
    #: The field of all choices, or one field per choice; empty if the layout implies the choices.
    choices: tuple[str | None, ...] = ()
    answer: str | None = None
    #: Fields that repeat one of these, and so are not kept as metadata.
    more: tuple[str | None, ...] = ()
    #: The field of the gold passages.
    gold: str | None = None
    id: str | None = None
    subject: str | None = None
    #: The fields that make up the context.
    contexts: tuple[str, ...] = ()

    @property
    def all(self) -> frozenset[str | None]:
        """All fields of the question, its choices and its answer."""
        return frozenset((self.question, *self.choices, self.answer, *self.more))


class Parts(NamedTuple):
    """The parts of a record, with the answer not yet interpreted."""

    question: Any
    choices: list[str]
    answer: object = None
    #: The file's labels of the choices; None for A, B, …
    labels: list[str] | None = None
    id: Any = None
    subject: Any = None
    context: str | None = None
    gold_passages: Any = ()
    #: All other fields of the record.
    rest: Mapping[str, Any] = {}
    used: Used = Used()
    #: Labels of choices that are flagged as right in the list of choices, in addition to `answer`.
    flagged: Sequence[str] = ()

    def given(self, answer: object) -> Given:
        """Return an answer to these choices, whichever field it is from.

        A list that a table's cell has as text becomes a list, unless a choice has exactly that text.
        """
        if isinstance(answer, str) and answer.strip().startswith("[") and answer not in self.choices:
            with suppress(FieldTrouble):
                found = decoded(answer.strip())
                answer = found if isinstance(found, list) else answer
        return Given(answer, self.choices, self.labels)


def parts_with_rest(fields: Fields, names: Names, used: Used, **known: Any) -> Parts:
    """Build Parts from `known` plus what all layouts share: id, subject, context, gold passages and other fields."""
    own = used.all
    context, from_contexts = context_of(fields, names, own)
    golds = [name for name in names.golds if name not in own and gold_ids(name, fields[name]) is not None]
    subject = fields[names.subject] if names.subject and names.subject not in own else None
    found_id = fields[names.id] if names.id else None
    taken = {*own, names.id, names.subject, *golds[:1], *from_contexts}
    return Parts(
        id=found_id,
        subject=subject if subject is None or isinstance(subject, str) else str(subject),
        context=context,
        gold_passages=gold_ids(golds[0], fields[golds[0]]) if golds else (),
        rest={name: value for name, value in fields.items() if name not in taken and name},
        used=used._replace(
            gold=golds[0] if golds else None,
            id=None if found_id is None else names.id,
            subject=None if subject is None else names.subject,
            contexts=tuple(from_contexts),
        ),
        **known,
    )


def are_ids(found: object) -> TypeGuard[list[str]]:
    return isinstance(found, list) and bool(found) and all(isinstance(each, str) for each in found)


def gold_ids(name: str, found: object) -> tuple[str, ...] | None:
    """Return the passage ids in field `name`; None if it holds something else.

    The name `gold_passages` is unambiguous, so a single id, a number, and a list in a table's cell are accepted; a
    number that became 1.0, as in a column with empty cells, is 1. Under other names, only a list of strings counts.
    """
    if spelled(name) != "gold_passages":
        return tuple(found) if are_ids(found) else None
    if isinstance(found, str) and found.startswith("["):
        with suppress(FieldTrouble):
            found = decoded(found)
    listed = [
        int(each) if isinstance(each, float) and each.is_integer() else each
        for each in (found if isinstance(found, list) else [found])
    ]
    if not all(each is None or (isinstance(each, str | int) and not isinstance(each, bool)) for each in listed):
        return None
    return tuple(str(each) for each in listed if each is not None and each != "")


def context_of(fields: Fields, names: Names, used: Collection[str | None]) -> tuple[str | None, list[str]]:
    """Return the text to be read before the question, joined by blank lines, and the fields that it comes from."""
    there = [name for name in names.contexts if fields[name] is not None and name not in used]
    if not there:
        return None, []
    found = {name: _text_in(name, fields[name]) for name in there}
    found = {name: text for name, text in found.items() if text.strip()}
    return "\n\n".join(dict.fromkeys(found.values())) or None, list(found)


def _text_in(name: str, found: object) -> str:
    try:
        inside = _joined(_in_cell(found)) if isinstance(found, str) else ""
        return inside or _joined(found)
    except RecursionError:
        raise FieldTrouble(name, "the lists are nested too deeply.", "Put the text there.") from None


def _in_cell(text: str) -> object:
    """Return the object, or the list of texts or objects, that a table's cell has as text; None for any other text."""
    cell = text.strip()
    if cell[:1] not in {"[", "{"}:
        return None
    with suppress(FieldTrouble):
        found = decoded(cell)
        texts = found if isinstance(found, list) else [found]
        # A table, or numbers, would lose what is no text.
        return found if all(isinstance(each, str | Mapping) for each in texts) else None
    return None


def _joined(found: object) -> str:
    """Join nested texts: a list of paragraphs, {"contexts": [...]}, or evidence objects with a text."""
    if isinstance(found, str):
        return found
    if isinstance(found, Mapping):
        inside = next((found[each] for each in CONTEXT_TEXTS if each in found), None)
        return _joined(inside)
    if isinstance(found, list | tuple):
        return "\n\n".join(filter(None, map(_joined, found)))
    return ""


def answer_of(fields: Fields, names: Names) -> tuple[object, str | None]:
    """Return the answer from the most reliable field, and the name of that field.

    AGIEval has an `answer` in addition to `label`; it is empty if the question has choices. What a separate answer file
    says counts even if it is nothing.
    """
    there = answers_of(fields, names)
    first = next(iter(there), None)
    for name in there:
        if name == SEPARATE_ANSWER or (fields[name] not in (None, "") and (name == first or spelled(name) in _SURE)):
            return fields[name], name
    return (fields[first], first) if first else (None, None)


def answers_of(fields: Fields, names: Names) -> list[str]:
    """Return every field that may be the answer key, the most reliable first."""
    return [name for name in names.answers if not (name in names.golds and are_ids(fields[name]))]


def question_of(fields: Fields, names: Names) -> Any:
    return fields[names.question] if names.question else None
