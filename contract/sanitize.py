"""Sanitizing untrusted text: control characters for terminals, formulas for spreadsheets.

Spreadsheets execute cells that start with = + - or @ (CWE-1236, "Improper Neutralization of Formula Elements in a CSV
File").
"""

from __future__ import annotations

import re
from collections.abc import Sequence

__all__ = ["for_cell", "for_cells", "for_json", "for_terminal"]

#: Control characters except tab and newline, those that change the writing direction, and halves of surrogate pairs,
#: which cannot be printed.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_FORMULA = frozenset("=+-@\t\r")


def for_terminal(text: str) -> str:
    r"""Return `text` with control characters escaped, so that ``\x1b[2J`` does not clear the screen."""
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def for_json(document: str) -> str:
    """Return a JSON document with the control characters escaped that JSON allows but a terminal would act on."""
    return _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", document)


def for_cell(text: str) -> str:
    """Return `text` for a CSV cell: unless it is a number, an apostrophe keeps spreadsheets from reading a formula."""
    return f"'{text}" if text[:1] in _FORMULA and not _is_number(text) else text


def for_cells(texts: Sequence[str | None]) -> Sequence[str | None]:
    """Return `for_cell` of each text, and None for None; faster if no text looks like a formula."""
    if _FORMULA.isdisjoint({text[:1] for text in texts if text}):
        return texts
    return [text and for_cell(text) for text in texts]


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
