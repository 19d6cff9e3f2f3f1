"""Another choice that a text calls possible or better behind its answer: `A - not sure, maybe C`. Neither is read.

Other readers of such texts know no hedge: lm-evaluation-harness and simple-evals take the first letter that their
pattern finds, MMLU-Pro the first one announced and else the last one, so that the same text is A for one and C for the
other.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from workers.scoring.extract.answer import Answer, sentence_before
from workers.scoring.extract.cues import FILLERS
from workers.scoring.extract.other_cases import of_another_case
from workers.scoring.extract.patterns import compiled, past
from workers.scoring.extract.targets import Claim
from workers.scoring.extract.words import CONDITION, SUPPOSED, TURNS

__all__ = ["also_possible", "is_hedged", "is_less_likely"]

_REACH = 1500
_PERHAPS = compiled(r"""
    (?:\b(?:maybe|perhaps|possibly|probably|alternatively|otherwise|or else
    |(?:could|might|may)(?: (?:also|well|just|even|equally|as well)){0,2} be
    |vielleicht|möglicherweise|womöglich|eventuell|peut-être|quizás?|tal vez|a lo mejor|posiblemente
    |talvez|possivelmente|forse|misschien|może|возможно|может быть|könnte(?: aber)?(?: auch)?|pourrait(?: aussi)? être
    |(?:podría|puede|poderia|pode)(?: también| também)? ser|potrebbe(?: anche)? essere)(?![\w-])
    |可能是?|也许是?|也許是?|或许是?|或許是?)
""")
_PERHAPS_BEFORE = re.compile(rf"{_PERHAPS.pattern}[\s,]{{0,2}}(?:(?:the|my|die|la) )?\Z")
_LABEL = re.compile(r"[(\[]?([A-Z])[)\]]?(?![\w'-])")
#: Behind that choice: its sentence ends, or says why.
_ENDS = compiled(r"""
    [)\]\"'*]{0,3}\s?(?:$|[.!?;)。\n]|,(?!\s?(?:but|though|although|yet|which|aber|mais|pero|ma|mas)\b)
    |(?:because|since|instead|too|as well|either|sein)\b)
""")
_BUT = re.compile(r"\b(?:but|although|though|however|yet)(?![\w-])")
#: Behind a choice: it is preferred to the one before. "Better known" it may be all the same.
_BETTER = compiled(r"""
    [)\]\"']{0,3}\s(?:is|would be|seems|looks|fits|matches)(?:\s(?:a|an|the|even|still|much|clearly|slightly)){0,2}
    \s(?:better|best|more (?:accurate|precise|correct|appropriate|suitable|plausible|likely))
    (?=[.,;!)\n]|$|\s(?:answer|choice|option|fit|match)\b)
""")
#: Before an answer: how likely it is.
_LIKELY = compiled(r"""
    \b(\d{1,3}(?:\.\d{1,4})?)\s?(?:%|percent)
    \s(?:sure|certain|confident|confidence|chance|likely|likelihood|probability)\b
""")


def also_possible(answer: Answer, claim: Claim) -> set[str]:
    """The choices that are called possible behind `claim`, or better, but not under a condition or for another case."""
    found: set[str] = set()
    for introduced, ends in ((_PERHAPS, _ENDS), (_BUT, _BETTER)):
        for begins in introduced.finditer(answer.lower, claim.end, claim.end + _REACH):
            labels, end = _choice_at(answer, past(FILLERS, answer.lower, begins.end()))
            other = Claim(claim.rule, labels, begins.start(), end)
            sentence = TURNS.split(sentence_before(answer.lower, other.start))[-1]
            if CONDITION.search(sentence) or SUPPOSED.search(sentence) or of_another_case(other, answer.lower):
                continue
            if ends.match(answer.lower, end):
                found |= set(labels)
    return found


def is_less_likely(answer: Answer, claims: Sequence[Claim]) -> bool:
    """Whether the last claim is called no likelier than another choice: `I'm 60% sure it's A and 40% sure it's C.`"""
    *before, own = _likelihoods(answer, claims[-1]) or [0.0]
    for claim in claims[:-1]:
        if claim.labels != claims[-1].labels:
            before += _likelihoods(answer, claim)
    return own > 0 and any(each >= own for each in before)


def _likelihoods(answer: Answer, claim: Claim) -> list[float]:
    """The percentages that the sentence of `claim` gives before it."""
    return [float(found[1]) for found in _LIKELY.finditer(sentence_before(answer.lower, claim.start))]


def is_hedged(lower: str, start: int) -> bool:
    """Whether what begins at `start` is only called possible: `Maybe it's C.`"""
    return _PERHAPS_BEFORE.search(lower, max(0, start - 30), start) is not None


def _choice_at(answer: Answer, at: int) -> tuple[tuple[str, ...], int]:
    """The choice that is named at `at`, by its label or text, and where it ends; empty if none is."""
    said = answer.place().said
    if (label := _LABEL.match(answer.text, at)) and label[1] in answer.options.labels:
        return (label[1],), label.end() + answer.options.follows(said(label.end()), label[1])
    labels, length = answer.options.beginning(said(at))
    return labels, at + length
