"""The values of a column as the cells of results.csv: numbers, texts that are safe in spreadsheets, None if empty."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import orjson

from contract.sanitize import for_cells
from producer.export.columns import Kind, Values, milliseconds

__all__ = ["Cells", "as_cells", "iso", "named"]

#: The cells of a column, one per question.
Cells = Sequence[Any]


def as_cells(kind: Kind, values: Values) -> Cells:
    """Return the values as cells; a whole column at a time, which is faster than cell by cell."""
    return _WRITTEN[kind](values) if kind in _WRITTEN else values


def iso(seconds: float) -> str:
    """Return `seconds` since the epoch as ISO 8601 in UTC, to the millisecond."""
    return _iso(milliseconds(seconds))


def named(score: float) -> float | str:
    """Return `score`, or the name of an infinity or NaN, which JSON lacks, such as "-inf"."""
    return score if math.isfinite(score) else str(score)


def _iso(milliseconds: int) -> str:
    seconds, rest = divmod(milliseconds, 1000)
    return f"{_to_the_second(seconds)}.{rest:03}Z"


@lru_cache(maxsize=1024)
def _to_the_second(seconds: int) -> str:
    """Format a time to the second; cached, as neighbouring rows share it and formatting is most of the work."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def _scores(scores: dict[str, float]) -> str:
    """Return JSON of floats and names; with orjson, because this is most of an export's work."""
    found = orjson.dumps(scores)
    if b"null" in found:  # orjson writes infinities and NaN as null
        found = orjson.dumps({label: named(score) for label, score in scores.items()})
    return found.decode()


def _numbers(numbers: list[float]) -> str:
    return orjson.dumps([named(number) for number in numbers]).decode()


def _texts(texts: list[str | None]) -> str:
    return json.dumps(texts, ensure_ascii=False, separators=(",", ":"))


def _facts(facts: Values) -> Cells:
    return list(map({True: "true", False: "false"}.get, facts))


def _each(to_text: Callable[[Any], str]) -> Callable[[Values], Cells]:
    """Return a function that converts the known values of a column."""
    return lambda values: [None if value is None else to_text(value) for value in values]


#: How kinds are written; those that are missing are written as they are.
_WRITTEN: dict[Kind, Callable[[Values], Cells]] = {
    Kind.TEXT: for_cells,
    Kind.FACT: _facts,
    Kind.TIME: _each(_iso),
    Kind.SCORES: _each(_scores),
    Kind.TEXTS: _each(_texts),
    Kind.NUMBERS: _each(_numbers),
}
