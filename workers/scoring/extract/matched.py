"""Choices that match two lists, `A-3, B-1, C-2`, in one spelling: models write `A - 3, B → 1 and C: 2`."""

from __future__ import annotations

import re
from collections.abc import Sequence

__all__ = ["are_matchings", "matched"]

_MARK = r"[A-Za-z]|\d{1,2}|[IVXivx]{1,5}"
_PAIR = rf"\(?({_MARK})[).]?\s?(?:->?|→|=|:)\s?\(?({_MARK})\)?(?!\w)"
_BETWEEN = r"(?:\s?[,;]\s?(?:and\s)?|\s(?:and|&)\s|\s?\n)"
_ONE = re.compile(_PAIR)
_MATCHING = re.compile(rf"(?<![\w(]){_PAIR}(?:{_BETWEEN}{_PAIR})+")


def are_matchings(choices: Sequence[str]) -> bool:
    """Whether each choice is nothing but pairs, at least two."""
    return all(_MATCHING.fullmatch(each.strip(" .")) for each in choices)


def matched(text: str) -> str:
    """`text` with its pairs in one spelling."""
    return _MATCHING.sub(lambda found: ", ".join(f"{one[1]}-{one[2]}" for one in _ONE.finditer(found[0])), text)
