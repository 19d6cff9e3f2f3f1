"""Deciding whether numbers beside the key say which choice is right as well, so that they must not contradict it.

Most numbers say something else: a level, a count, a flag, the row. All rows of the head decide together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from producer.readers.answers import WAYS, Given, Way, is_number, read_as

__all__ = ["Column", "way_of_second_key"]

#: The answer of each record of the head in one field; None if the record has no key there.
Column = Sequence[Given | None]

#: Share of the rows in which numbers must name choices, agree with the key, or follow it.
_MOST = 0.9
#: With fewer rows, numbers may follow the key by chance.
_LEAST_ROWS = 8

#: A number beside the key, and the choices that the key names.
_Row = tuple[Given, tuple[str, ...]]


def way_of_second_key(numbers: Column, right: Sequence[tuple[str, ...]], *, sure: bool) -> Way | None:
    """Return how these numbers name choices if they are a second key, in the way that agrees best with the first.

    Return None if they may be anything else. `right` are the choices that the first key names. `sure`: the field's name
    hardly means anything but a key; if it may, each right choice must go with a number of its own.
    """
    rows = [(each, key) for each, key in zip(numbers, right, strict=True) if each and key]
    if not rows or any(isinstance(each.answer, list | tuple) or not is_number(each.answer) for each, _ in rows):
        return None
    agreeing: dict[Way, int] = {}
    for way in WAYS:
        read = [(read_as(each, way), key) for each, key in rows]
        if sum(bool(named) for named, _ in read) >= _MOST * len(rows):
            agreeing[way] = sum(not set(named).isdisjoint(key) for named, key in read)
    if not agreeing:
        return None
    best = max(agreeing, key=agreeing.__getitem__)
    if {*agreeing} == {Way.TEXT}:
        return best
    if sure:
        return best if _vary(rows) else None
    # 0 and 1 may mean the choice, or no and yes.
    flags = {_number(row) for row in rows} <= {"0", "1"}
    return best if _follow(rows) and (not flags or agreeing[best] >= _MOST * len(rows)) else None


def _number(row: _Row) -> str:
    return str(row[0].answer).strip()


def _vary(rows: Sequence[_Row]) -> bool:
    """Whether there are as many numbers as right choices, or three: a constant or a flag says something else."""
    return len({_number(row) for row in rows}) >= min(len({key for _, key in rows}), 3)


def _follow(rows: Sequence[_Row]) -> bool:
    """Whether each right choice goes with a number of its own, much more often than it would by chance."""
    if len(rows) < _LEAST_ROWS:
        return False
    pairs = Counter((row[1], _number(row)) for row in rows)
    keys, numbers = Counter(key for _, key in rows), Counter(map(_number, rows))
    number_of: dict[tuple[str, ...], str] = {}
    for (key, number), _ in pairs.most_common():
        if key not in number_of and number not in number_of.values():
            number_of[key] = number
    together = sum(pairs[pair] for pair in number_of.items()) / len(rows)
    by_chance = sum(keys[key] * numbers[number] for key, number in number_of.items()) / len(rows) ** 2
    return together - by_chance > _MOST * (1 - by_chance)
