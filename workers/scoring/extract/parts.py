"""Answers that are given part by part, of which the last one is not the answer to the whole question."""

from __future__ import annotations

import re
from collections.abc import Sequence

from workers.scoring.extract.targets import Claim

__all__ = ["answered_before"]

#: How far back from an answer the heads of its part and of the part before are looked for.
_REACH = 1500
#: What heads a part: `(a)`, `b)`, `(ii)`, `2)`, `Statement 2:`.
_HEAD = re.compile(
    r"(?:^|[\n.;:]\s?)[*\s]{0,3}(?:(?:statement|part|question) ([1-9]|[a-h]|i{1,3})[*]{0,2}\s?[:.)-]"
    r"|[(\[]([1-9]|[a-h]|i{1,3})[)\]]|([1-9]|[a-h])\))[*]{0,2}\s"
)
_NUMERALS = {"i": 1, "ii": 2, "iii": 3}


def answered_before(claims: Sequence[Claim], lower: str) -> Claim | None:
    """The claim that answers the part before that of the last claim, if both have parts of their own.

    `(a) It lies in Spain. The answer is B. (b) It lies in France. The answer is C.`
    """
    last = claims[-1]
    before = next(
        (claim for claim in reversed(claims) if claim.end <= last.start and claim.labels != last.labels), None
    )
    if before is None or before.weak or last.weak:
        return None
    heads = list(_HEAD.finditer(lower, max(0, before.start - _REACH), last.start))
    if not heads or heads[-1].start() < before.end - 1 or "\n\n" in lower[heads[-1].end() : last.start].strip():
        return None
    own = _place(heads[-1])
    parts = [_place(head) for head in heads if head.start() < before.start]
    return before if own[1] > 1 and parts and parts[-1] == (own[0], own[1] - 1) else None


def _place(head: re.Match[str]) -> tuple[str, int]:
    """By what the parts are told apart, and which of them it is."""
    mark = next(filter(None, head.groups()))
    if mark.isdigit():
        return "number", int(mark)
    return ("numeral", _NUMERALS[mark]) if mark in _NUMERALS else ("letter", ord(mark) - ord("a") + 1)
