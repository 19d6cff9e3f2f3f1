"""An answer in the spelling that the rules know, and how its sentences speak."""

from __future__ import annotations

import re
from typing import NamedTuple

from workers.scoring.extract.options import Options
from workers.scoring.extract.patterns import compiled
from workers.scoring.extract.plain import lowered, plain, unemphasized
from workers.scoring.extract.targets import Claim, Place
from workers.scoring.extract.words import CONDITION, DENIED_BEFORE, HESITANT, REFUSED, SUPPOSED, TURNS

__all__ = ["Answer", "is_taken_back", "stated"]

_SENTENCE_END = re.compile(r"[.!?;\n](?=\s|$)|[。！？]")
_CLAUSE_END = re.compile(r"[,:]")
#: What a sentence says right before the choice that it states: "is", "is called the", "=".
_STATES = compiled(r"""
    (?:^|[=:]|\b(?:is|are|was|were|be|equals|it's|that's|called|named|ist|heißt|est|es|é|è)
    (?: (?:called|named|only|just))?)\s?(?:the |an? )?$
    |^(?:definitely|probably|clearly|obviously|certainly|likely)\s$
""")


class Answer(NamedTuple):
    """A model's answer, ready for the rules."""

    #: With Markdown's bold.
    marked: str
    text: str
    lower: str
    options: Options

    @classmethod
    def of(cls, said: str, options: Options) -> Answer:
        """Brings `said` into the one spelling that the rules know."""
        marked = plain(said)
        text = unemphasized(marked)
        return cls(marked, text, lowered(text), options)

    def place(self, at: int, *, clear: bool = True) -> Place:
        """The position `at` of the text."""
        return Place(self.text, self.lower, self.options, at, clear)


def is_taken_back(lower: str, at: int) -> bool:
    """Whether the sentence before `at` takes back what follows: `I don't think the answer is`, `If the answer is`."""
    sentence = _SENTENCE_END.split(lower[max(0, at - 200) : at])[-1]
    sentence = TURNS.split(sentence)[-1]
    clause = _CLAUSE_END.split(sentence)[-1]
    return bool(CONDITION.search(sentence) or SUPPOSED.search(clause) or DENIED_BEFORE.search(clause))


def stated(place: Place) -> Claim | None:
    """The choice that the sentence at `place` ends with, if it speaks of no other: `The capital is Paris.`"""
    said = place.said(place.at)
    spans = list(place.options.mentioned(said))
    ends = (found.start() for found in _SENTENCE_END.finditer(said))
    end = next((at for at in ends if not any(start <= at < stop - 1 for start, stop, _ in spans)), len(said))
    mentions = [span for span in spans if span[0] < end]
    if len({text for _, _, text in mentions}) != 1 or said[end : end + 1] == "?":
        return None
    said = said[:end]
    if HESITANT.search(said) or REFUSED.search(said):
        return None
    start, end, text = mentions[-1]
    if said[end:].strip(" .,!:;)]}'") or not _STATES.search(said[:start]):
        return None
    return Claim("option-text", place.options.having(text), place.at, place.at + end)
