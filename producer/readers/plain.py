"""Layouts with separate fields for question, choices and answer: our own, and most others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from contract.question import LABELS
from producer.readers.answers import Given, are_flags, no_key
from producer.readers.choices import Choices, as_texts, checked, choices_of, labelled, no_list
from producer.readers.field_names import Names, names_of
from producer.readers.marks import refuse_other_order
from producer.readers.parts import (
    SEPARATE_ANSWER,
    Fields,
    Parts,
    Used,
    answer_of,
    are_ids,
    context_of,
    gold_ids,
    parts_with_rest,
    question_of,
)
from producer.readers.record import FieldTrouble, shown_value

__all__ = ["has_choices", "has_labelled_choices", "is_own", "named", "no_question", "own"]


def _flat(fields: Fields) -> tuple[Fields, Names]:
    """Return the record with a nested `question: {stem, choices}` flattened."""
    names = names_of(tuple(fields))
    if names.question and isinstance(inner := fields[names.question], Mapping):
        outer = {name: value for name, value in fields.items() if name != names.question}
        fields = {**outer, **inner}
        names = names_of(tuple(fields))
    return fields, names


def named(fields: Fields, _names: Names) -> Parts:
    """Extract question, choices and answer from separate fields, under any of their usual names."""
    fields, names = _flat(fields)
    answer, where = answer_of(fields, names)
    held = _held(fields, names)
    if names.family and not _holds_choices(held):
        used = Used(names.question, tuple(name for _, name in names.family), where)
        found = _columns(fields, names)
        answer = _label_of_column(answer, used.choices[: len(found.texts)])
    else:
        used = Used(names.question, (names.choices,), where)
        found = choices_of(held)
    texts = checked(found.texts)
    more = {"question": _whole_question(fields, names), "choices": texts, "labels": found.labels}
    right = None if where == SEPARATE_ANSWER else found.right
    if right and no_key(answer, texts):
        return parts_with_rest(fields, names, used._replace(answer=names.choices), answer=right, **more)
    return parts_with_rest(fields, names, used, answer=answer, flagged=right or (), **more)


def _whole_question(fields: Fields, names: Names) -> Any:
    """Return the question; if it is only COPA's "cause" or "effect", a full question about the premise."""
    question = question_of(fields, names)
    premise = names.spelled.get("premise")
    if premise and premise != names.question and question in ("cause", "effect"):
        asked = "What was the cause of this?" if question == "cause" else "What happened as a result?"
        return f"{fields[premise]} {asked}"
    return question


def _held(fields: Fields, names: Names) -> Any:
    """Return the value of the field of all choices; None without such a field."""
    return fields[names.choices] if names.choices else None


def _holds_choices(found: object) -> bool:
    """Whether `found` can be the choices: a field `answers` may hold the right ones instead."""
    return isinstance(found, list | tuple | Mapping) or (isinstance(found, str) and bool(found.strip()))


def _columns(fields: Fields, names: Names) -> Choices:
    """Return choices from one column each. Only the last ones may be empty, as some questions have fewer."""
    texts = [fields[name] for _, name in names.family]
    while texts and (texts[-1] is None or (isinstance(texts[-1], str) and not texts[-1].strip())):
        texts.pop()
    return labelled(Choices(as_texts(texts), [label for label, _ in names.family[: len(texts)]]))


def _label_of_column(answer: object, columns: Sequence[str | None]) -> object:
    """Return our label of the choice whose column `answer` names, as COPA's `choice2`; any other answer unchanged."""
    if not isinstance(answer, str) or len(answer) == 1:
        return answer
    return dict(zip(columns, LABELS, strict=False)).get(answer, answer)


def has_choices(fields: Fields, _names: Names) -> bool:
    fields, names = _flat(fields)
    return names.question is not None and (bool(names.family) or _holds_choices(_held(fields, names)))


def has_labelled_choices(fields: Fields, _names: Names) -> bool:
    fields, names = _flat(fields)
    found = _held(fields, names)
    objects = isinstance(found, list) and bool(found) and isinstance(found[0], Mapping) and "label" in found[0]
    return names.question is not None and (objects or (isinstance(found, Mapping) and "text" in found))


#: What to do about choices that are marked in another order.
_BY_MARKS = "Remove the marks; or use --map choices=choices if answers refer to the marks."
#: Most records of our own layout have only these fields.
_MOST_COMMON = frozenset({"id", "question", "choices", "answer", "subject"})


@lru_cache(maxsize=64)
def _used(*, has_id: bool, has_subject: bool, contexts: tuple[str, ...] = (), gold: str | None = None) -> Used:
    found_id, subject = "id" if has_id else None, "subject" if has_subject else None
    return Used("question", ("choices",), "answer", id=found_id, subject=subject, gold=gold, contexts=contexts)


def no_question(fields: Fields) -> FieldTrouble:
    """Return the error for a record in which no field has the text of a question."""
    shown = ", ".join(map(str, fields)) or "no fields"
    hint = "Every row needs the text of its question; use --map question=FIELD if it is in another field."
    return FieldTrouble("question", f"missing; found {shown_value(shown)}.", hint, kind="missing")


def own(fields: Fields, names: Names) -> Parts:
    """Extract the parts of our own layout; `answer` keeps its type."""
    question = fields.get("question")
    if question is None:
        raise no_question(fields)
    found = fields.get("choices")
    if not isinstance(found, list):
        raise no_list(found)
    texts = checked(found)
    refuse_other_order(texts, _BY_MARKS)
    found_id, subject = fields.get("id"), fields.get("subject")
    beside = question, texts, fields.get("answer"), None, found_id, subject
    if _MOST_COMMON.issuperset(fields):
        return Parts(*beside, used=_used(has_id=found_id is not None, has_subject=subject is not None))
    golds, context, contexts = _own_passages(fields, names)
    gold = golds[0] if golds else None
    used = _used(has_id=found_id is not None, has_subject=subject is not None, contexts=tuple(contexts), gold=gold)
    taken = {*_MOST_COMMON, "context", *contexts, *golds}
    rest = {name: value for name, value in fields.items() if name not in taken}
    found = Parts(*beside, context, _golds(gold, fields), rest, used)
    return _with_also_right(found) if isinstance(rest.get("also_right"), list) else found


def _with_also_right(parts: Parts) -> Parts:
    """Return the parts of a question as an export writes it: the first right choice, and a list of the others."""
    rest = dict(parts.rest)
    others = rest.pop("also_right")
    return parts._replace(answer=[parts.answer, *others] if others else parts.answer, rest=rest)


def _golds(gold: str | None, fields: Fields) -> Any:
    """Return the gold passages; a value that is not ids is returned unchanged, to be refused by the validation."""
    if gold is None:
        return ()
    found = fields[gold]
    ids = gold_ids(gold, found)
    return found if ids is None else ids


def _own_passages(fields: Fields, names: Names) -> tuple[list[str], str | None, list[str]]:
    """Return the field of gold passages, in a list, the context, and the fields that make up the context."""
    golds = [name for name in names.golds if name == "gold_passages" or are_ids(fields[name])][:1]
    if not names.contexts:
        return golds, None, []
    if fields.get("context") is not None and not isinstance(fields["context"], str | list):
        message = f"found {shown_value(fields['context'])}, expected text."
        raise FieldTrouble("context", message, "Write it as text.", kind="not text")
    return golds, *context_of(fields, names, ())


def is_own(fields: Fields, names: Names) -> bool:
    choices = fields.get("choices")
    return (
        isinstance(fields.get("question"), str)
        and isinstance(choices, list)
        and ("answer" in fields or not names.answers)
        and not (choices and isinstance(choices[0], Mapping))
        and not are_flags(Given(fields.get("answer"), choices))
    )
