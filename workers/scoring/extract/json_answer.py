"""The answers of a text that consists of JSON objects: what else they say, such as a reasoning, is no answer.

Fields and objects do not follow each other as sentences do, of which a later one corrects an earlier one: if they name
different choices, none of them is the answer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

__all__ = ["json_answers"]

_FIELD = re.compile(
    r"(?:(?:final|correct|best|selected|chosen)[ _])?(?:answer|choice|option|label)|answer[ _]choice", re.IGNORECASE
)
#: Around objects and between them, a list's brackets included.
_BETWEEN = re.compile(r"(?:[\s,;\[\]]|```(?:jsonl?)?)*", re.IGNORECASE)


class _Fields(list[tuple[str, object]]):
    """An object's fields; a name may be there twice."""


_DECODER = json.JSONDecoder(object_pairs_hook=_Fields)


def json_answers(said: str) -> list[str]:
    """The values of the answer's fields, if `said` is JSON objects, in code blocks or not, and nothing else.

    `{"answer": "C", "reason": "A is the best choice for Germany."}` → `["C"]`; an empty value for an object that calls
    its own answer wrong.
    """
    values: list[str] = []
    for fields in _objects(said):
        if fields is None:
            return []
        values += _answers(fields)
    return values


def _objects(said: str) -> Iterator[_Fields | None]:
    """The objects that `said` consists of; None where it goes on otherwise."""
    at = _end_of_gap(said, 0)
    while at < len(said):
        try:
            found, at = _DECODER.raw_decode(said, at)
        except (ValueError, RecursionError):
            found = None
        yield found if isinstance(found, _Fields) else None
        if found is None:
            return
        at = _end_of_gap(said, at)


def _end_of_gap(said: str, at: int) -> int:
    found = _BETWEEN.match(said, at)
    return found.end() if found else at


def _answers(fields: _Fields) -> list[str]:
    named = dict(fields)
    verdict = named.get("verdict")  # of any type: 0 is not False, and a list is in no set
    if named.get("is_correct") is False or verdict is False or verdict in ("incorrect", "wrong"):
        return [""]
    return [value for name, value in fields if _FIELD.fullmatch(name) and isinstance(value, str)]
