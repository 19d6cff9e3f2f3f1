"""Whether a text that calls one choice right calls another one so, too: then what is asked for may be the wrong one."""

from __future__ import annotations

import re
from dataclasses import replace

from workers.scoring.extract.answer import Answer
from workers.scoring.extract.lists import DENIAL
from workers.scoring.extract.patterns import compiled
from workers.scoring.extract.targets import Claim

__all__ = ["is_one_of_several", "is_only_called_right", "mentioned_labels"]

_REACH = 1500
_SENTENCE = re.compile(r"[^.!?;\n。！？；]{1,400}")
_MENTION = re.compile(
    r"(?<![A-Za-z\d_'-])\(?(?P<label>[B-HJ-Z]|[AI](?! (?!is|was|and|or|would|looks|seems|are)[a-z]))\)?(?![A-Za-z\d_'])"
)
#: Right only in part: "A is correct in that", "so far".
_IN_PART = compiled(
    r"\s?(?:in that|so far|at first|at least|about|as far as|up to|for now|insofar|regarding|on its own)\b"
)
#: In an item of assertion and reason these have letters, too.
_ITEM = re.compile(r"\b(?:assertion|reason|statement|premise)\s?[(\"']{0,2}$")
_ALSO_RIGHT = compiled(r"""
    \b(?:also|too|true|accurate|correct|right|valid|better|best|prefer\w*|answer|holding|(?:more|most) \w{3,20}
    |so (?:are|is)|as well|should be|korrekt|richtig|vrai|correcte)\b|也|正确
""")
_EXCEPTION = compiled(r"""
    \b(?:exception|odd one out|all of the above|phrase fausse|选错误|选择错误|不正确的是|falsche (?:aussage|antwort)
    |(?:false|incorrect|wrong|untrue) (?:statement|one|option|answer|choice))\b
""")
_CALLED_RIGHT = re.compile(r"[)\]]?\s(?:is|looks|seems)(?: \w{1,15})? (?:correct|right)(?! (?:answer|choice|option))\b")


def mentioned_labels(answer: Answer, start: int, end: int) -> set[str]:
    """The labels that the text names from `start` to `end`: `C`, `(C)`, but neither an article nor a name."""
    found = _MENTION.finditer(answer.text, start, end)
    return {each["label"] for each in found} & set(answer.options.labels)


def is_only_called_right(answer: Answer, claim: Claim) -> bool:
    """Whether all that is said of the label that `claim` ends with is that it is right, as others are."""
    found = _CALLED_RIGHT.match(answer.lower, claim.end)
    if found and answer.options.sought and answer.options.sought.false_statement:
        return True
    return found is not None and is_one_of_several(answer, replace(claim, end=found.end()))


def is_one_of_several(answer: Answer, claim: Claim) -> bool:
    """Whether what `claim` calls right is not all that is: `A is correct, but C is better.`"""
    if _IN_PART.match(answer.lower, claim.end) or _ITEM.search(answer.lower, max(0, claim.start - 20), claim.start):
        return True
    for sentence in _SENTENCE.finditer(answer.text, claim.end, claim.end + _REACH):
        lower = answer.lower[sentence.start() : sentence.end()]
        others = mentioned_labels(answer, sentence.start(), sentence.end()) - set(claim.labels)
        also_right = others and _ALSO_RIGHT.search(lower) and not DENIAL.search(lower)
        if also_right or _EXCEPTION.search(lower):
            return True
    return False
