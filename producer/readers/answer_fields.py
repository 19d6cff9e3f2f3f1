"""Determining which field of a record holds the answer key, and which other fields must not contradict it.

Several fields may look like the key. The one with the most reliable name is used, but a letter or a text is more
reliable than a bare number: if there are both, the number is interpreted so that they agree, or ignored if it is a flag
or a row number. The others must not contradict the key if they are letters or texts, or numbers that are a second key
(`second_key`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from contract.wording import number
from producer.readers.answers import INDICES, Given, Way, is_number, meant, no_key, read_as, settle
from producer.readers.field_names import INDEX_NAMES, names_of, spelled
from producer.readers.marks import without_marks
from producer.readers.parts import Parts, answers_of
from producer.readers.record import FieldTrouble, shown_value
from producer.readers.second_key import Column, way_of_second_key

__all__ = [
    "FIRST_OF_COLUMNS",
    "Key",
    "fields_beside_own_key",
    "key_of",
    "may_be_indices_from_0",
    "name_all_choices",
    "refuse_contradiction",
    "say_by_label_or_text",
]

#: Share of the rows in which two fields must agree to be considered equivalent.
_MOST = 0.9
#: Share from which the lists in a field `gold` may be keys.
_HALF = 0.5
#: Usual names for an index that counts from 0, unless choices are in columns: SocialIQA's label counts from 1.
_FROM_0 = INDEX_NAMES | {"label", "labels"}
#: How the first column ends where they are numbered from 1: `option1` or `option01`.
FIRST_OF_COLUMNS = ("1", "01")
#: Names that in many files mean something other than the key.
_OFTEN_NO_KEY = frozenset(
    ["key", "correct", "label", "labels", "answer_id", "correct_answer_id", "target", "classification"]
)
#: Names under which numbers beside a key are seldom a second one: those above, and others that may be the number of
#: right choices, the result of a calculation, or a passage.
_SELDOM_SECOND_KEY = _OFTEN_NO_KEY | {
    *("answers", "correct_answers", "solution", "gold", "answer_text", "correct_answer_text", "correct_text")
}


class Key(NamedTuple):
    """How a file says which choices are right."""

    way: Way
    #: The field, if it is not the one that each record's field names suggest.
    field: str | None = None
    #: Other fields that must not name different choices, and how they name them.
    beside: tuple[tuple[str, Way], ...] = ()
    #: Whether the base of its numbers is assumed, from the field's name or from those of the choices' columns alone.
    assumes_base: bool = False
    #: Whether the user says that the file has no key (`--map answer=`).
    is_ruled_out: bool = False
    #: Whether labels that choices begin with, "(A) red", are removed from their texts.
    removes_marks: bool = False

    def applied_to(self, parts: Parts) -> Parts:
        """Return `parts` with the answer from this field, and without marks if the file's are removed."""
        if self.removes_marks:
            parts = without_marks(parts)
        first = parts.used.answer
        if self.field is None or self.field == first:
            return parts
        rest = {name: value for name, value in parts.rest.items() if name != self.field}
        if first is not None:
            rest[first] = parts.answer
        return parts._replace(
            answer=_found(parts, self.field),
            gold_passages=() if parts.used.gold == self.field else parts.gold_passages,
            rest=rest,
            used=parts.used._replace(answer=self.field),
        )


def key_of(head: Sequence[Parts], ways: Sequence[Way], like: Way | None) -> Key:
    """Return the key of a file that begins with `head`; its numbers count as in `like` if nothing else decides it.

    Raises FieldTrouble if it cannot be decided.
    """
    keyed = Counter(each.used.answer for each in head if not no_key(each.answer, each.choices))
    name = next((each for each, _ in keyed.most_common(1)), None) or _gold_with_keys(head)
    if name is None:
        return Key(settle((), ways))
    fields = {each: _given(head, each) for each in (name, *_others(head, name))}
    said = [each for each, given in fields.items() if say_by_label_or_text(given)]
    field, way = _most_reliable(name, fields, said, ways)
    assumed = False
    if way is None:
        way, assumed = _way_of(head, field, [each for each in fields[field] if each], ways, like)
    # If the layout took any of its lists for gold passages, the field must be named: they are its answers.
    usual = field == name and all(each.used.gold != name for each in head)
    return Key(way, None if usual else field, _beside(field, way, fields, said), assumed)


def _most_reliable(
    name: str, fields: Mapping[str, Column], said: Sequence[str], ways: Sequence[Way]
) -> tuple[str, Way | None]:
    """Return the field that holds the key, `name` by its name alone, and how its numbers count if another one tells."""
    column = fields[name]
    if name in said:
        return name, None
    if not _are_numbers(column):
        return (said[0] if said and name_all_choices(column) else name), None
    if not said:
        may_be = [each for each in fields if _may_be_index(each, fields[each])] if _is_no_key(name, column) else []
        return (may_be or [name])[0], None
    way, agreed = _agreeing(column, fields[said[0]], (*ways, Way.FLAGS))
    return (name, way) if agreed or not _is_no_key(name, column) else (said[0], None)


def _way_of(
    head: Sequence[Parts], field: str, given: Sequence[Given], ways: Sequence[Way], like: Way | None
) -> tuple[Way, bool]:
    """Return how these values name choices, and whether the base of their numbers is assumed."""
    try:
        way = settle(given, ways, like if like in INDICES else None)
    except FieldTrouble:
        if not _counts_from_0(head, field):
            raise
        return Way.INDEX_0, True
    if not may_be_indices_from_0(head, given, way):
        return way, False
    return Way.INDEX_0 if like is Way.INDEX_0 else way, like not in {Way.INDEX_0, Way.INDEX_1, Way.LABEL}


def may_be_indices_from_0(head: Sequence[Parts], given: Sequence[Given], way: Way) -> bool:
    """Whether numbers that are read as those of the choices' columns, from 1 on, could as well be indices from 0: none
    is as large as the number of choices.
    """
    return (
        way is Way.LABEL
        and any(len(each.used.choices) > 1 for each in head)
        and all(is_number(each.answer) and (each.labels or [""])[0] in FIRST_OF_COLUMNS for each in given)
        and all(read_as(each, Way.INDEX_0) for each in given)
    )


def fields_beside_own_key(head: Sequence[Parts], name: str) -> tuple[tuple[str, Way], ...]:
    """Return the fields that give the answer besides the key `name` of our own layout, whose numbers count from 0."""
    fields = {each: _given(head, each) for each in (name, *_others(head, name))}
    return _beside(name, Way.ANY_0, fields, [each for each, given in fields.items() if say_by_label_or_text(given)])


def refuse_contradiction(key: Key, parts: Parts, right: tuple[str, ...]) -> None:
    """Raise FieldTrouble if two fields name different choices: one is wrong, and it is not known which."""
    flagged = meant(parts.given(list(parts.flagged)), Way.LABEL)
    if flagged and right and not set(right) & set(flagged):
        message = f"{parts.used.answer!r} says {shown_value(parts.answer)}, but {flagged[0]} is marked as right."
        raise FieldTrouble("answer", message, "Correct the one that is wrong.", kind="two answers contradict")
    for name, way in key.beside:
        other = meant(parts.given(parts.rest.get(name)), way)
        if right and other and not set(right) & set(other):
            shown = f"{parts.used.answer!r} says {shown_value(parts.answer)}, which is {', '.join(right)}"
            message = f"{shown}, but {name!r} says {shown_value(parts.rest[name])}, which is {', '.join(other)}."
            hint = f"Use --map answer={name} for the latter, --map answer={parts.used.answer} for the former."
            raise FieldTrouble("answer", message, hint, kind="two answers contradict")


def _given(head: Sequence[Parts], name: str) -> Column:
    given = (each.given(_found(each, name)) for each in head)
    return [None if no_key(each.answer, each.choices) else each for each in given]


def _found(parts: Parts, name: str) -> Any:
    """Return what the field holds, whatever the layout took it for."""
    if parts.used.answer == name:
        return parts.answer
    return list(parts.gold_passages) if parts.used.gold == name else parts.rest.get(name)


def _gold_with_keys(head: Sequence[Parts]) -> str | None:
    """Return the field `gold` if its lists, which are usually of passages, are labels or texts of choices.

    Raises FieldTrouble if only about half of them are.
    """
    names = {each.used.gold for each in head if each.used.gold and spelled(each.used.gold) == "gold"}
    for name in names:
        given = [each for each in _given(head, name) if each]
        said = _named_otherwise(given)
        if said and said >= _MOST * len(given):
            return name
        if said and said >= _HALF * len(given):
            message = f"names choices in {said:,} of {number(len(given), 'row')}: a key or passages?"
            hint = f"Use --map answer={name} for a key, --map gold_passages={name} for ids of passages."
            raise FieldTrouble(name, message, hint, kind="a key or passages")
    return None


def _others(head: Sequence[Parts], name: str) -> Iterable[str]:
    """Return the other fields that may be the answer, judging by name, the most reliable first."""
    there: dict[str, None] = {}
    for parts in head:
        names = names_of(tuple(parts.rest))
        there |= dict.fromkeys(answers_of(parts.rest, names))
        if "answers" in names.spelled:
            there[names.spelled["answers"]] = None
    return [each for each in there if each != name]


def say_by_label_or_text(column: Column) -> bool:
    """Whether these values name choices other than by number."""
    given = [each for each in column if each]
    return bool(given) and _named_otherwise(given) >= _MOST * len(given)


def _named_otherwise(given: Sequence[Given]) -> int:
    """Return how many of the values name choices otherwise than by number."""
    return sum(not is_number(each.answer) and 0 < len(meant(each, Way.ANY)) < len(each.choices) for each in given)


def name_all_choices(column: Column) -> bool:
    """Whether these values merely list all choices or all labels."""
    return all(len(meant(each, Way.ANY)) == len(each.choices) for each in column if each)


def _are_numbers(column: Column) -> bool:
    return all(is_number(each.answer) for each in column if each)


def _is_no_key(name: str, column: Column) -> bool:
    """Whether these numbers are probably not a key: flags, or all different, like row numbers."""
    numbers = [str(each.answer).strip() for each in column if each]
    if spelled(name) not in _OFTEN_NO_KEY:
        return False
    return {each.lower() for each in numbers} <= {"0", "1", "true", "false"} or len({*numbers}) == len(numbers)


def _may_be_index(name: str, column: Column) -> bool:
    given = [each for each in column if each]
    read = max(sum(bool(meant(each, way)) for each in given) for way in INDICES)
    return bool(given) and read >= _MOST * len(given) and not _is_no_key(name, column)


def _agreeing(numbers: Column, said: Column, ways: Sequence[Way]) -> tuple[Way, bool]:
    """Return the way in which the most numbers agree with the other field, and whether nearly all of them do."""
    pairs = [(one, meant(other, Way.ANY)) for one, other in zip(numbers, said, strict=True) if one and other]
    agree = {way: sum(meant(one, way) == other for one, other in pairs) for way in ways}
    best = max(ways, key=lambda way: (agree[way], sum(bool(meant(one, way)) for one, _ in pairs)))
    return best, bool(pairs) and agree[best] >= _MOST * len(pairs)


def _beside(key: str, way: Way, fields: Mapping[str, Column], said: Sequence[str]) -> tuple[tuple[str, Way], ...]:
    """Return the fields that must not contradict `key`, those in `said` and second keys, and how they name choices."""
    right = [meant(each, way) if each else () for each in fields[key]]
    beside = {
        name: settle(filter(None, column), (Way.LABEL, Way.TEXT))
        if name in said
        else way_of_second_key(column, right, sure=spelled(name) not in _SELDOM_SECOND_KEY)
        for name, column in fields.items()
        if name != key
    }
    return tuple((name, way) for name, way in beside.items() if way)


def _counts_from_0(head: Sequence[Parts], field: str) -> bool:
    """Whether numbers in a field with this name usually count from 0."""
    return spelled(field) in _FROM_0 and not any(len(each.used.choices) > 1 for each in head)
