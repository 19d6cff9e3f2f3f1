"""Claims about another case than the question's: `Option D would be the best choice for Lyme disease.`

Models explain why the other choices are wrong by saying when they would be right. Such a claim neither displaces the
answer given before it, nor is it certain that it speaks of another case: a conclusion may repeat the question's case.
Alone, it counts as the answer. Where an answer was given before, it yields to it if it says what would be, or names the
case last; `For Lyme disease, the best choice is D` contradicts it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from workers.scoring.extract.answer import sentence_before
from workers.scoring.extract.patterns import compiled
from workers.scoring.extract.targets import Claim
from workers.scoring.extract.words import CONCLUDES

__all__ = ["is_hypothetical", "of_another_case", "split_other_cases"]

#: Words that name a case, and are neither the question's own ("for this patient") nor idioms ("in conclusion").
_CASE = compiled(r"""
    (?:(?:for|in|among|with)\s
    (?!(?:this|these|that|those|the|our|such|your|my|me|us|sure|now|all|both|conclusion|summary|short|fact|general|total
    |order|light|contrast|view|addition|particular|other words|terms|reality|truth|practice|essence|brief|sum|hindsight
    |retrospect|certainty|confidence|question)\b)
    |(?:when(?:ever)?|where|without|under(?! (?:this|these|those|such|our)\b))\s|only\s(?:for|in|if|when|among|with)\s)
""").pattern
#: What a sentence about another case may begin with, too.
_ELSEWHERE = compiled(r"""
    otherwise|then\b|in that case|in contrast|by (?:contrast|that)|on the other hand|similarly|conversely|likewise
    |after (?!careful|consider|review|analy|evaluat|examin|weigh|all|look|check|re)|before \d|previously
    |(?:using|applying|following|with|under|by|per|on|in|for|according to)\s(?:the |an? )?(?:old(?:er)?|previous|former
    |traditional|earlier|classic(?:al)?|outdated|obsolete|original|alternative|other(?! words)|different)\b
    |from an? \w+ (?:perspective|standpoint|view)
    |at (?:high|low|higher|lower|room|other)\w*\s
    |in the (?:next|following|second|other) (?:question|example|problem|part)
    |para |per (?:la|il|lo|le|i|gli)\b|pour |für |对于|對於|问|問|如果
""").pattern
#: "D would be the best choice for Lyme disease", "D is the correct answer only in children".
_NOUN = r"(?:answer|choice|option|one|fit|match)"
_CASE_BEHIND = re.compile(rf"(?<= ){_NOUN} (?:mainly |primarily |especially )?{_CASE}\w")
#: "For Lyme disease, the best choice is", "In children the answer would be", "Were she pregnant, the answer would be",
#: "the best choice for Lyme disease is".
_CASE_BEFORE = compiled(rf"""
    (?:^[\s>*#•-]{{0,6}}(?:note(?: that)?:?\s)?(?:(?:but|however|and|while|though|whereas),?\s)?|,\s(?:while|whereas)\s)
    (?:\w{{1,12}}:\s)?(?:{_CASE}|{_ELSEWHERE}|(?:were|had|should)\s(?:it|he|she|they|the|this|a|an|we|there)\b)
    |\b(?:best|ideal|preferred|better|first-line|(?:most|more) \w{{1,20}})\s{_NOUN}\s{_CASE}
    |\banswer (?:{_CASE}
    |to (?:the (?:first|second|previous|next|last|other) |(?!(?:this|the|that|your|our|question|problem|q\d)\b)))
""")
_TURNS = re.compile(r"\s?(?:but|however|actually)\b")
#: The claim says what would be, or what is usual.
_HYPOTHETICAL = re.compile(
    r"\b(?:would|might|could|may|were|had|serait|sería|sarebbe|seria|of choice|only (?:for|in|if|when)"
    r"|to the (?:first|second|previous|next|other) \w+)\b|'d\b"
)


def split_other_cases(claims: Sequence[Claim], lower: str) -> tuple[list[Claim], list[Claim]]:
    """`claims` in the order of the text, divided before the last ones that may speak of another case."""
    cut = len(claims)
    while cut and of_another_case(claims[cut - 1], lower):
        cut -= 1
    return list(claims[:cut]), list(claims[cut:])


def is_hypothetical(claim: Claim, lower: str) -> bool:
    """Whether `claim` only says what would be, or is elsewhere: `D would be the …`, `D is the answer for Italy`."""
    before = sentence_before(lower, claim.start)
    would = _HYPOTHETICAL.search(before + lower[claim.start : claim.end]) and not _TURNS.match(before)
    return bool(would) or _case_behind(claim, lower)


def of_another_case(claim: Claim, lower: str) -> bool:
    """Whether `claim` may speak of another case than the question's."""
    if _case_behind(claim, lower):
        return True
    before = sentence_before(lower, claim.start)
    return _CASE_BEFORE.search(before) is not None and not CONCLUDES.match(before)


def _case_behind(claim: Claim, lower: str) -> bool:
    return _CASE_BEHIND.match(lower, lower.rfind(" ", claim.start, claim.end) + 1) is not None
