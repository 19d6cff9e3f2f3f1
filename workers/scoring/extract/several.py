"""Whether a text that calls one choice right calls another one so, too: then neither is the answer.

What is asked for may be the wrong one, or the text does not decide.
"""

from __future__ import annotations

import re
from dataclasses import replace

from workers.scoring.extract.answer import Answer
from workers.scoring.extract.lists import DENIAL
from workers.scoring.extract.patterns import compiled
from workers.scoring.extract.targets import Claim

__all__ = ["also_right", "is_beside", "is_one_of_several", "is_only_called_right", "mentioned_labels"]

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
#: At the beginning or end of a claim, or right behind it: the choice is right beside another one.
_BESIDE = re.compile(
    r"[\s:]{0,3}(?:also|auch|aussi|también|também|anche|也)\b|.*\b(?:is|are) also (?:the|an?|my|our)\b[^.\n]{0,40}\Z",
    re.DOTALL,
)
#: Behind this, "also" is German for "hence".
_GERMAN = re.compile(r"\b(?:ist|lautet|wäre|antwort|lösung|nehme|wähle):?\s?\Z")
_ALSO = re.compile(r"\balso\b")
_TOO = re.compile(r"[)\]\"']{0,3},? ?(?:too|also|as well)(?=[.!,;)\n]|$)")
_RIGHT = r"(?:correct|right|(?:a|an|the) (?:correct |right |valid )?(?:answer|choice|option))"
#: The next sentence: "B is also correct.", "B is correct as well."
_RIGHT_TOO = re.compile(
    r"[)\]\"'.!;,]{1,3}\s(?:and |but )?(?:[Oo]ption |[Cc]hoice |[Aa]nswer )?[(\"']{0,2}([A-Z])[)\]\"']{0,2} is "
    rf"(?:also {_RIGHT}(?=[.!\n]|$)|{_RIGHT},? (?:too|as well)(?=[.!,\n]|$))"
)
#: A choice that other choices are right with.
_TOGETHER = re.compile(r"\b(?:above|both|all|and)\b|[&,]")


def mentioned_labels(answer: Answer, start: int, end: int) -> set[str]:
    """The labels that the text names from `start` to `end`: `C`, `(C)`, but neither an article nor a name."""
    found = _MENTION.finditer(answer.text, start, end)
    return {each["label"] for each in found} & set(answer.options.labels)


def is_beside(answer: Answer, claim: Claim) -> bool:
    """Whether `claim` says that its choice is right beside another: `The answer is also C`, `C is the answer, too`."""
    said = answer.lower[claim.start : claim.end]
    if said.lstrip().startswith("also") and _GERMAN.search(answer.lower, max(0, claim.start - 12), claim.start):
        return False
    return bool(_BESIDE.match(said) or _TOO.match(answer.lower, claim.end))


def also_right(answer: Answer, claim: Claim) -> set[str]:
    """The label that is called right, too, right behind `claim`: `The answer is C. A is also correct.`

    None where the others are right because the choice is the exception, or one like "both of the above".
    """
    found = _RIGHT_TOO.match(answer.text, claim.end)
    together = any(_TOGETHER.search(answer.options.text(label)) for label in claim.labels)
    return {found[1]} & set(answer.options.labels) if found and not together and not answer.options.sought else set()


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
    before = max(0, claim.start - _REACH), claim.start
    beside = _ALSO.search(answer.lower, claim.start, claim.end) and mentioned_labels(answer, *before)
    if beside or _is_cut_off(answer, claim):
        return True
    for sentence in _SENTENCE.finditer(answer.text, claim.end, claim.end + _REACH):
        lower = answer.lower[sentence.start() : sentence.end()]
        others = mentioned_labels(answer, sentence.start(), sentence.end()) - set(claim.labels)
        also_right = others and _ALSO_RIGHT.search(lower) and not DENIAL.search(lower)
        if also_right or _EXCEPTION.search(lower):
            return True
    return False


def _is_cut_off(answer: Answer, claim: Claim) -> bool:
    """Whether the text goes on with the next choice but not to the last one, which may be right, too."""
    *_, following = answer.options.labels.partition(claim.labels[-1])
    behind = mentioned_labels(answer, claim.end, len(answer.text)) if following else set()
    return bool(behind) and following[0] in behind and following[-1] not in behind
