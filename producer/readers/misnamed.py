"""Refusing files in which a field holds something else than its name suggests, which accuracies would not reveal.

The question may be in another field than the one that is called so. And a field with an unknown name may be the key of
a file in which no field with a usual name is: it would be asked without a key, and the run would have no accuracy.
Labels and texts of choices are hardly anything else, nor are positions under a name like `gold_idx`: such a file is
refused until the user says. Other small numbers may as well be levels, or pages: a warning names their fields.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from producer.readers.answer_fields import name_all_choices, say_by_label_or_text
from producer.readers.answers import INDICES, Given, is_number, no_key, read_as
from producer.readers.field_names import PARTS, spelled
from producer.readers.parts import Parts
from producer.readers.record import FieldTrouble, Record, shown_value

__all__ = ["possible_keys", "refuse_doubtful_questions", "refuse_overlooked_key"]

#: With fewer rows, a text may be repeated, or a field name choices, by chance.
_LEAST_ROWS = 3
#: The same for numbers, unless the field's name speaks of a key.
_LEAST_ROWS_OF_NUMBERS = 8
#: Share of the rows in which numbers must be positions of choices.
_MOST = 0.9
#: Words in names of keys.
_OF_KEYS = frozenset(["answer", "answers", "ans", "correct", "gold", "golden", "key", "right", "solution", "truth"])


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


def refuse_overlooked_key(head: Sequence[Parts]) -> None:
    """Raise FieldTrouble if no question has a key, but a field with an unknown name is most probably the key."""
    for name, column in _columns_if_keyless(head):
        if say_by_label_or_text(column) and not name_all_choices(column):
            message = f"no field has a usual name of the key, but {name!r} names a choice in nearly every row."
            hint = f"Use --map answer={name} if it is the key, --map answer= if there is none."
            raise FieldTrouble("answer", message, hint, kind="may be the key")
        if not _OF_KEYS.isdisjoint(spelled(name).split("_")) and (bases := _bases(column)):
            message = f"no field has a usual name of the key, but the numbers in {name!r} may be positions of choices."
            hint = f"Use {_remedy(name, bases)} if it is the key, --map answer= if there is none."
            raise FieldTrouble("answer", message, hint, kind="may be the key")


def possible_keys(head: Sequence[Parts]) -> list[str]:
    """Return what `--map` needs for each field of numbers that may be the key, if no question has one."""
    if len(head) < _LEAST_ROWS_OF_NUMBERS:
        return []
    return [_remedy(name, bases) for name, column in _columns_if_keyless(head) if (bases := _bases(column))]


def _columns_if_keyless(head: Sequence[Parts]) -> Iterator[tuple[str, list[Given]]]:
    """Yield the unused fields whose values vary, if no question has a key and there are enough of them."""
    if len(head) < _LEAST_ROWS or any(each.flagged or not no_key(each.answer, each.choices) for each in head):
        return
    for name in dict.fromkeys(name for each in head for name in each.rest):
        column = [each.given(each.rest.get(name)) for each in head]
        if len({str(each.answer) for each in column}) > 1:
            yield name, column


def _bases(column: Sequence[Given]) -> list[int]:
    """Return what the numbers may count from if they are positions of choices; empty if they are anything else."""
    known = [each for each in column if not no_key(each.answer, each.choices)]
    listed = [each.answer if isinstance(each.answer, list) else [each.answer] for each in known]
    numbers = {str(number).strip() for several in listed for number in several}
    if not all(is_number(each.answer) for each in known) or len(numbers) < 2:
        return []
    if numbers <= {"0", "1"} and max(len(each.choices) for each in known) > 2:
        return []  # flags
    read = [sum(bool(read_as(each, way)) for each in known) for way in INDICES]
    most = max(read)
    return [base for base, count in enumerate(read) if count == most] if most >= _MOST * len(column) else []


def _remedy(name: str, bases: Sequence[int]) -> str:
    """Return the options that make a field the key."""
    if len(bases) == 1:
        return f"--map answer={name}"
    first, second = (f"--map answer={name},base={base}" for base in bases)
    return f"{first} or {second}"
