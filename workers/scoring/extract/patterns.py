"""Helpers for long regular expressions.

None of the expressions here repeats a repetition without a bound, so that each takes time linear in the text.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache

__all__ = ["compact", "compiled", "past"]


def compact(pattern: str) -> str:
    """`pattern` without its line breaks and indentation; blanks within a line count."""
    return "".join(line.strip() for line in pattern.split("\n"))


@cache
def compiled(pattern: str) -> re.Pattern[str]:
    """The compact `pattern`, in the Unicode form that answers are brought to: Thai ำ is two characters there."""
    return re.compile(unicodedata.normalize("NFKC", compact(pattern)))


def past(pattern: re.Pattern[str], text: str, at: int = 0) -> int:
    """Where `pattern` ends that stands at `at`; `at` where it does not."""
    found = pattern.match(text, at)
    return found.end() if found else at
