"""A record taken apart: what every layout does alike."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from producer.readers.field_names import Names, spelled

__all__ = [
    "PAIRED",
    "Fields",
    "Parts",
    "Used",
    "answer_of",
    "answers_of",
    "are_ids",
    "context_of",
    "described",
    "gold_ids",
    "question_of",
]

Fields = Mapping[str, Any]
#: The field that a record has its answer in where answers stand in a file of their own: the surest by its name
#: (`answer_key`), in a spelling that no file has.
PAIRED = "--answer-key"
#: Names that can mean nothing but the right choice: they count where the field of a surer name is empty.
_SURE = frozenset({"answer_key", "answer_idx", "answer_index", "answer_letter", "label", "labels", "correct_answer"})


class Used(NamedTuple):
    """The fields that a record's question, choices and answer were taken from, as its file calls them."""

    question: str | None = None
    #: The field of all choices, or one for each; none where the layout itself has them.
    choices: tuple[str | None, ...] = ()
    answer: str | None = None
    #: What says one of these once more, and so is no metadata.
    more: tuple[str | None, ...] = ()

    @property
    def all(self) -> frozenset[str | None]:
        """All of them."""
        return frozenset((self.question, *self.choices, self.answer, *self.more))


class Parts(NamedTuple):
    """A record taken apart, its answer not yet understood."""

    question: Any
    choices: list[str]
    answer: object = None
    #: What the file calls the choices; None: A, B, …
    labels: list[str] | None = None
    id: Any = None
    subject: Any = None
    context: str | None = None
    gold_passages: Any = ()
    #: Everything else that the record says.
    rest: Mapping[str, Any] = {}
    used: Used = Used()
    #: Labels of the choices that are marked as right where they stand, beside `answer`.
    marked: Sequence[str] = ()


def described(fields: Fields, names: Names, used: Used, **known: Any) -> Parts:
    """Parts with what every layout has: id, subject, context, gold passages and the rest."""
    own = used.all
    context, from_contexts = context_of(fields, names, own)
    golds = [name for name in names.golds if name not in own and gold_ids(name, fields[name]) is not None]
    subject = fields[names.subject] if names.subject and names.subject not in own else None
    taken = {*own, names.id, names.subject, *golds[:1], *from_contexts}
    known.setdefault("rest", {name: value for name, value in fields.items() if name not in taken and name})
    return Parts(
        id=fields[names.id] if names.id else None,
        subject=subject if subject is None or isinstance(subject, str) else str(subject),
        context=context,
        gold_passages=gold_ids(golds[0], fields[golds[0]]) if golds else (),
        used=used,
        **known,
    )


def are_ids(found: object) -> bool:
    return isinstance(found, list) and bool(found) and all(isinstance(each, str) for each in found)


def gold_ids(name: str, found: object) -> tuple[str, ...] | None:
    """The ids of passages that field `name` holds; None where it holds something else.

    `gold_passages` can be nothing else: one id alone, a number, and a list written into a cell of a table are taken.
    Under other names only texts in a list are ids.
    """
    if spelled(name) != "gold_passages":
        return tuple(found) if isinstance(found, list) and are_ids(found) else None
    if isinstance(found, str) and found.startswith("["):
        with suppress(ValueError):
            found = json.loads(found)
    listed = found if isinstance(found, list) else [found]
    if not all(each is None or (isinstance(each, str | int) and not isinstance(each, bool)) for each in listed):
        return None
    return tuple(str(each) for each in listed if each is not None and each != "")


def context_of(fields: Fields, names: Names, used: Collection[str | None]) -> tuple[str | None, list[str]]:
    """What is to be read before the question: every such field, a blank line between them."""
    found = {name: _joined(fields[name]) for name in names.contexts if name not in used}
    found = {name: text for name, text in found.items() if text.strip()}
    return "\n\n".join(dict.fromkeys(found.values())) or None, list(found)


def _joined(found: object) -> str:
    """Texts of any depth: a list of paragraphs, {"contexts": [...]}, evidences with their text."""
    if isinstance(found, str):
        return found
    if isinstance(found, Mapping):
        inside = next((found[each] for each in ("contexts", "text", "sentences") if each in found), None)
        return _joined(inside)
    if isinstance(found, list | tuple):
        return "\n\n".join(filter(None, map(_joined, found)))
    return ""


def answer_of(fields: Fields, names: Names) -> tuple[object, str | None]:
    """What the surest field says of the right choice, and which one that is.

    AGIEval has an `answer` beside `label`, which is empty where there are choices.
    """
    there = answers_of(fields, names)
    first = next(iter(there), None)
    for name in there:
        if fields[name] not in (None, "") and (name == first or spelled(name) in _SURE):
            return fields[name], name
    return (fields[first], first) if first else (None, None)


def answers_of(fields: Fields, names: Names) -> list[str]:
    """Every field that may say which choice is right, the surest first."""
    return [name for name in names.answers if not (name in names.golds and are_ids(fields[name]))]


def question_of(fields: Fields, names: Names) -> Any:
    return fields[names.question] if names.question else None
