"""Making text of strangers harmless where it would be obeyed: by terminals its control characters, by spreadsheets its
formulas.

Spreadsheets run what begins with = + - or @ (CWE-1236, "Improper Neutralization of Formula Elements in a CSV File").
"""

from __future__ import annotations

import re

__all__ = ["for_cell", "for_json", "for_terminal"]

#: Control characters but tab and newline, and those that turn the direction of writing.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_FORMULA = frozenset("=+-@\t\r")


def for_terminal(text: str) -> str:
    r"""`text` with control characters spelt out: ``\x1b[2J`` clears no screen."""
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def for_json(document: str) -> str:
    """A JSON document with those control characters escaped that JSON allows and a terminal obeys."""
    return _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", document)


def for_cell(text: str) -> str:
    """Text for a CSV cell that no spreadsheet takes for a formula: an apostrophe before it, unless it is a number."""
    return f"'{text}" if text[:1] in _FORMULA and not _is_number(text) else text


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
