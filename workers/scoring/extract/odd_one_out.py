"""Rules for questions that ask for the exception, the choice that is *not* so; silent for all others."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from workers.scoring.extract.answer import Answer, is_taken_back
from workers.scoring.extract.patterns import compiled
from workers.scoring.extract.sought import DENIES, FALSE, NOUN
from workers.scoring.extract.targets import Claim, read_target

__all__ = ["denied_choice", "exception_statement"]

_MOST = 200
_IS = r"(?:\s(?:is|are|was|would be|must be|has to be)(?![\w'])|\s?:)"
#: What announces the exception. Of wrong *answers* there are several, but of "the wrong statement" one.
_CUES = (
    compiled(rf"\bthe {FALSE} {NOUN}(?: (?:here|among|about|regarding|of|in)\b[^.,;:\n]{{0,80}}?)?{_IS}"),
    compiled(rf"""
        \b(?:{NOUN}|answer|\w{{3,20}}) (?:that|which|who) (?:{DENIES}|(?:is|are|was|were) (?:{FALSE}|the exception))\b
        [^.,;:\n]{{0,100}}?{_IS}
    """),
    compiled(rf"\b(?:the )?least \w{{3,20}}(?: \w{{3,20}}){{0,3}}{_IS}"),
    compiled(r"\ball\b[^.;:\n]{0,100}\b(?:except|apart from|other than)(?: for)?\b:?"),
)
_LEADS = r"\b(?:statement|option|choice|answer|while|but|and|or|nor|only|so|hence|thus|therefore|that|however),?\s"
_LABEL = compiled(rf"(?:^|[\n.,;:!?(\"']\s?|{_LEADS})[(\"']{{0,2}}([a-z])(?![a-z\d'])")
#: Before a choice with which a sentence or clause begins.
_BEGINS = compiled(rf"(?:^|[\n.,:;!?]\s?|{_LEADS})[\"'(*]{{0,2}}(?:the |an? )?$")


def exception_statement(answer: Answer) -> Iterator[Claim]:
    """`The false statement is C`, `The one that is not a noble gas is oxygen`, `All of them except C`."""
    if answer.options.sought is None:
        return
    for cue in _CUES:
        for found in deque(cue.finditer(answer.lower), maxlen=_MOST):
            if is_taken_back(answer.lower, found.start()):
                continue
            if claim := read_target(answer.place(found.end()), "exception-statement"):
                yield claim


def denied_choice(answer: Answer) -> Iterator[Claim]:
    """`C is false`, `Oxygen is not a noble gas`: the only choice that is said to be what is asked for."""
    if answer.options.sought is None:
        return
    claims = [*_denied_labels(answer), *_denied_texts(answer)]
    if len({claim.labels for claim in claims}) == 1:
        yield claims[-1]


def _denied_labels(answer: Answer) -> Iterator[Claim]:
    options = answer.options
    for found in deque(_LABEL.finditer(answer.lower), maxlen=_MOST):
        label, end = answer.text[found.start(1)], found.end(1)
        if label not in options.labels or is_taken_back(answer.lower, found.start(1)):
            continue
        own_end = end + options.follows(answer.place(0).said(end), label)
        if options.is_exception(answer.lower, end) or options.is_exception(answer.lower, own_end):
            yield Claim("denied-choice", (label,), found.start(1), own_end)


def _denied_texts(answer: Answer) -> Iterator[Claim]:
    options = answer.options
    for start, end, text in deque(options.mentioned(answer.lower), maxlen=_MOST):
        begins = _BEGINS.search(answer.lower, max(0, start - 20), start)
        if begins and options.is_exception(answer.lower, end) and not is_taken_back(answer.lower, start):
            yield Claim("denied-choice", options.having(text), start, end)
