"""Claims about another case than the question's: `Option D would be the best choice for Lyme disease.`

Models explain why the other choices are wrong by saying when they would be right. Such a claim neither displaces the
answer given before it, nor is it certain that it speaks of another case: a conclusion may repeat the question's case.
Alone, it counts as the answer; where an answer was given before, "would be" yields to it, and "is" contradicts it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from workers.scoring.extract.patterns import compiled
from workers.scoring.extract.targets import Claim

__all__ = ["is_hypothetical", "split_other_cases"]

_REACH = 200
_SENTENCE_END = re.compile(r"[.!?;\n](?=\s)")
_BEST = r"(?:best|ideal|preferred|better|first-line|(?:most|more) \w{1,20})"
_NOUN = r"(?:answer|choice|option|one|fit|match)"
#: Words that name a case, and are neither the question's own ("for this patient") nor idioms ("in conclusion").
_CASE = compiled(r"""
    (?:for|in|among|with|when)\s
    (?!(?:this|these|that|those|the|our|such|your|my|me|us|sure|now|all|both|conclusion|summary|short|fact|general|total
    |order|light|contrast|view|addition|particular|other words|terms|reality|essence|brief|sum|certainty|confidence
    |question)\b)
""").pattern
#: "D would be the best choice for Lyme disease", "D is the correct answer in children".
_CASE_BEHIND = re.compile(rf" {_CASE}\w")
_ENDS_WITH_NOUN = re.compile(rf" {_NOUN}$")
#: "For Lyme disease, the best choice is", "for Lyme disease, option", "the best choice for Lyme disease is".
_CASE_BEFORE = compiled(rf"""
    ^\s?(?:(?:but|however|and|while|though),?\s)?{_CASE}[^\n]{{1,150}},\s(?:the\s{_BEST}\s{_NOUN}\b|(?:option\s)?$)
    |\b{_BEST}\s{_NOUN}\s{_CASE}
""")
_WOULD = re.compile(r"\b(?:would|might|could|may)\b")


def split_other_cases(claims: Sequence[Claim], lower: str) -> tuple[list[Claim], list[Claim]]:
    """`claims` in the order of the text, divided before the last ones that may speak of another case."""
    cut = len(claims)
    while cut and _of_another_case(claims[cut - 1], lower):
        cut -= 1
    return list(claims[:cut]), list(claims[cut:])


def is_hypothetical(claim: Claim, lower: str) -> bool:
    """Whether `claim` only says what would be: `Option D would be the best choice for …`."""
    return _WOULD.search(_sentence_before(claim, lower) + lower[claim.start : claim.end]) is not None


def _of_another_case(claim: Claim, lower: str) -> bool:
    if _ENDS_WITH_NOUN.search(lower, claim.start, claim.end) and _CASE_BEHIND.match(lower, claim.end):
        return True
    return _CASE_BEFORE.search(_sentence_before(claim, lower)) is not None


def _sentence_before(claim: Claim, lower: str) -> str:
    return _SENTENCE_END.split(lower[max(0, claim.start - _REACH) : claim.start])[-1]
