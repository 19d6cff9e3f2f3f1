"""Reading JSON Lines: one object per line. A line that cannot be parsed does not affect the others."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NoReturn

from producer.readers.record import FieldTrouble, Record
from producer.readers.text import Text

__all__ = ["DECODER", "STRICT", "read_jsonl"]


def _refuse_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is not a JSON number")


def _object(members: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(members)
    if len(found) < len(members):
        seen: set[str] = set()
        for name, _ in members:
            if name in seen:
                raise FieldTrouble(name, "is there twice in one object.", "Keep one of the two.")
            seen.add(name)
    return found


#: Strict JSON: by default, Python accepts NaN and Infinity, and silently keeps the last of two members with one name.
#: Raises ValueError for the former, FieldTrouble for the latter.
STRICT: dict[str, Any] = {"parse_constant": _refuse_constant, "object_pairs_hook": _object}
DECODER = json.JSONDecoder(**STRICT)


def read_jsonl(text: Text) -> Iterator[Record]:
    """Yield the records of the file, skipping blank lines. A malformed line yields a record with its error."""
    for line, content in enumerate(text.lines_and_troubles(), start=1):
        if isinstance(content, FieldTrouble):
            yield Record(line, None, trouble=content)
            continue
        stripped = content.strip()
        if not stripped:
            continue
        try:
            value = _decoded(stripped)
        except json.JSONDecodeError as trouble:
            column = trouble.colno + content.index(stripped)
            yield Record(line, stripped, trouble=_malformed(f"{trouble.msg.removesuffix(' at')} at column {column}"))
        except (ValueError, RecursionError) as trouble:
            yield Record(line, stripped, trouble=_malformed(str(trouble)))
        except FieldTrouble as trouble:
            yield Record(line, stripped, trouble=trouble)
        else:
            yield Record(line, value, value if isinstance(value, dict) else None)


def _decoded(line: str) -> Any:
    """Return the value of a line without surrounding white space. `decode` would search for such white space twice."""
    value, end = DECODER.raw_decode(line)
    if end != len(line):
        raise json.JSONDecodeError("Extra data", line, end)
    return value


def _malformed(what: str) -> FieldTrouble:
    hint = "Each line must be one complete JSON object."
    return FieldTrouble("", f"malformed JSON: {what}.", hint, kind="malformed JSON")
