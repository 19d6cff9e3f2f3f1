"""The answers of a text that consists of JSON objects: what else they say, such as a reasoning, is no answer.

Fields and objects do not follow each other as sentences do, of which a later one corrects an earlier one: if they name
different choices, none of them is the answer.
"""

from __future__ import annotations

import json
import re

from workers.scoring.extract.patterns import past

__all__ = ["json_answers"]

_FIELD = re.compile(
    r"(?:(?:final|correct|best|selected|chosen)[ _]?)?(?:answer|choice|option|label|letter)"
    r"(?:[ _]?(?:choice|option|letter|key|text))?",
    re.IGNORECASE,
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
    return [value for fields in _objects(said) for value in _answers(fields)]


def _objects(said: str) -> list[_Fields]:
    """The objects that `said` consists of; none where there is anything else."""
    found = []
    at = past(_BETWEEN, said)
    while at < len(said):
        try:
            fields, at = _DECODER.raw_decode(said, at)
        except (ValueError, RecursionError):
            return []
        if not isinstance(fields, _Fields):
            return []
        found.append(fields)
        at = past(_BETWEEN, said, at)
    return found


def _answers(fields: _Fields) -> list[str]:
    named = dict(fields)
    verdict = named.get("verdict")  # of any type: 0 is not False, and a list is in no set
    if named.get("is_correct") is False or verdict is False or verdict in ("incorrect", "wrong"):
        return [""]
    values = [value for name, value in fields if _FIELD.fullmatch(name)]
    return [value or "" for value in values if value is None or isinstance(value, str)]
