"""JSON Lines: one object per line. A line that does not parse spoils itself alone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NoReturn

from producer.readers.record import FieldTrouble, Record
from producer.readers.text import Text

__all__ = ["DECODER", "read_jsonl"]


def _refuse_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is no JSON number")


#: Strict JSON: Python's own dialect would take NaN and Infinity.
DECODER = json.JSONDecoder(parse_constant=_refuse_constant)


def read_jsonl(text: Text) -> Iterator[Record]:
    """Records of the file; blank lines are skipped. A malformed line is a record with its trouble."""
    number = 0
    for line, content in enumerate(text.lines_and_troubles(), start=1):
        if isinstance(content, FieldTrouble):
            number += 1
            yield Record(number, line, None, trouble=content)
            continue
        stripped = content.strip()
        if not stripped:
            continue
        number += 1
        try:
            value = _decoded(stripped)
        except json.JSONDecodeError as trouble:
            column = trouble.colno + content.index(stripped)
            yield Record(number, line, stripped, trouble=_malformed(f"{trouble.msg} at column {column}"))
        except (ValueError, RecursionError) as trouble:
            yield Record(number, line, stripped, trouble=_malformed(str(trouble)))
        else:
            yield Record(number, line, value, value if isinstance(value, dict) else None)


def _decoded(line: str) -> Any:
    """The value that fills the line, which has no white space around it: `decode` would look for some twice."""
    value, end = DECODER.raw_decode(line)
    if end != len(line):
        raise json.JSONDecodeError("Extra data", line, end)
    return value


def _malformed(what: str) -> FieldTrouble:
    hint = "Each line holds one complete JSON object."
    return FieldTrouble("", f"malformed JSON: {what}.", hint, kind="malformed JSON")
