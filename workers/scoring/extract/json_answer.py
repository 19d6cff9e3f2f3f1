"""The answer of a text that is a JSON object: what else it says, such as its reasoning, is no answer."""

from __future__ import annotations

import json
import re

__all__ = ["json_answer"]

_FIELD = re.compile(
    r"(?:(?:final|correct|best|selected|chosen)[ _])?(?:answer|choice|option|label)|answer[ _]choice", re.IGNORECASE
)
_FENCED = re.compile(r"\s*```(?:json)?\s*(\{.*\})\s*```\s*", re.DOTALL | re.IGNORECASE)


def json_answer(said: str) -> str | None:
    """The value of the answer's field, if `said` is a JSON object with one, in a code block or not; empty for none.

    `{"answer": "C", "reason": "A is the best choice for Germany."}` → `C`.
    """
    fenced = _FENCED.fullmatch(said)
    written = fenced[1] if fenced else said.strip()
    if not written.startswith("{"):
        return None
    try:
        found = json.loads(written)
    except (ValueError, RecursionError):
        return None
    verdict = found.get("verdict")  # of any type: 0 is not False, and a list is in no set
    if found.get("is_correct") is False or verdict is False or verdict in ("incorrect", "wrong"):
        return ""
    values = [value for name, value in found.items() if _FIELD.fullmatch(name)]
    return values[0] if len(values) == 1 and isinstance(values[0], str) else None
