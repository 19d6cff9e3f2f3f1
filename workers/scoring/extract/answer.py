"""An answer in the spelling that the rules know, and how its sentences speak."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from workers.scoring.extract.normalize import lowered, plain, unemphasized
from workers.scoring.extract.options import Options
from workers.scoring.extract.patterns import compiled, past
from workers.scoring.extract.targets import Claim, Place
from workers.scoring.extract.words import CONDITION, DENIED_BEFORE, HESITANT, OF_EXAMPLE, OR, REFUSED, SUPPOSED, TURNS

__all__ = ["MIGHT", "STATES", "Answer", "is_taken_back", "sentence_before", "stated"]

_SENTENCE_END = re.compile(
    r"[.!?;](?=[\"')\]]{0,2}(?:\s|$))|\n|[。！？；।۔؟]"
    r"|\",(?=\s?\"(?:$|\w{1,40}\"\s?:))"  # the next field of a JSON object
)
#: How far back a sentence is read.
_BEFORE = 200
#: How far back an example begins, and with one of which words.
_EXAMPLE, _EXAMPLE_WORDS = 900, ("example", "question", "problem", "exercise")
_CLAUSE_END = re.compile(r"[,:،]|\s-\s")
#: Between the choice that is meant and one that is not: "Paris, not Rome".
_DENIED = re.compile(r",?\s(?:and |but )?(?:not|rather than|instead of) (?:the |an? )?")
#: What a sentence says right before the choice that it states: "is", "is called the", "=".
STATES = compiled(r"""
    (?:^|[=:]|\b(?:is|are|was|were|be|equals|it's|that's|called|named|ist|heißt|est|es|é|è)
    (?: (?:called|named|only|just|therefore|thus|hence|clearly|indeed|definitely))?)\s?(?:the |an? )?$
    |^(?:definitely|probably|clearly|obviously|certainly|likely|in (?:conclusion|summary|short),|overall,|finally,
    |(?:so|thus|hence|therefore),?)\s$
""")
#: It only says what is possible: "It might be Paris."
MIGHT = re.compile(r"\b(?:might|could|may|can) be (?:the |an? )?$")
#: It speaks of a part of what was asked: "Statement II is true."
_PART = re.compile(
    r"\b(?:(?:first|second|third|fourth|last) (?:statement|part|claim|one)"
    r"|(?:statement|part|claim) (?:[b-h]|\d|i{1,3}|a(?= is))\b|option [a-z]\b|only \()"
)
#: What it may say behind that choice: nothing, or why.
_REST = re.compile(r"[\s.,!:;)\]}']*|,?\s(?:because|since)\s.*", re.DOTALL)


#: A minus sign apart from its number, which is no dash where choices are negative numbers: "is - 1", "B) - 1".
_NEGATIVE = re.compile(
    r"(?:(?<=[:=({\[#]\s)|(?<=[({\[*])|(?<=\b(?:is|be)\s)|(?<=\bequals\s)|(?<=\b[A-Z][).]\s))- (?=\d)"
    r"|\A- (?=\d[\d.,]*\Z)"
)
#: Pictures that only adorn a text, unlike ticks, crosses and the like.
_PICTURE = re.compile("(?![👎🙅🚫🛑🗴-🗹])[\U0001f300-\U0001faff✨⭐➡]\ufe0f?")


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
        drawn = any(map(_PICTURE.search, options.texts))
        marked = plain(said if drawn else _PICTURE.sub(" ", said))
        if options.has_negative_numbers:
            marked = _NEGATIVE.sub("-", marked)
        text = unemphasized(marked)  # first, as single marks may be in bold: "**A**-3, **B**-1"
        if options.matching:
            marked = text
        text = options.respelled(text)
        return cls(options.respelled(marked), text, lowered(text), options)

    def place(self, at: int = 0, *, clear: bool = True) -> Place:
        """The position `at` of the text."""
        return Place(self.text, self.lower, self.options, at, clear)


def sentence_before(lower: str, at: int) -> str:
    """What the sentence at `at` says before it."""
    return _SENTENCE_END.split(lower[max(0, at - _BEFORE) : at])[-1]


def is_taken_back(lower: str, at: int) -> bool:
    """Whether the sentence before `at` takes back what follows: `I don't think the answer is`, `If the answer is`.

    So it is, too, where it answers another question: `Similar question: What is the capital of Spain? The answer is`.
    """
    sentence = TURNS.split(sentence_before(lower, at))[-1]
    clause = _CLAUSE_END.split(sentence)[-1]
    if CONDITION.search(sentence) or SUPPOSED.search(clause) or DENIED_BEFORE.search(clause):
        return True
    return _is_of_example(lower, at)


def _is_of_example(lower: str, at: int) -> bool:
    """Whether what follows `at` answers an example. Most texts have none of its words, which is quickly seen."""
    begins = max(0, at - _EXAMPLE)
    spoken_of = any(lower.find(word, begins, at) >= 0 for word in _EXAMPLE_WORDS)
    return spoken_of and OF_EXAMPLE.search(lower, begins, at) is not None


def stated(place: Place) -> Claim | None:
    """The choice that the sentence at `place` ends with, if it speaks of no other: `The capital is Paris.`

    Others may follow, if all that is said of them is that they are not meant: `The capital is Paris, not Rome.`
    """
    said = place.said(place.at)
    spans = list(place.options.mentioned(said))
    ends = (found.start() for found in _SENTENCE_END.finditer(said))
    stop = next((at for at in ends if not any(start <= at < end - 1 for start, end, _ in spans)), len(said))
    mentions = [span for span in spans if span[0] < stop]
    asked, sentence = said[stop : stop + 1] == "?", said[:stop]
    denied = _denies_the_others(sentence, mentions)
    if denied:
        mentions = mentions[:1]
        sentence = said[: mentions[0][1]]
    if asked or len({text for _, _, text in mentions}) != 1:
        return None
    start, end, text = mentions[-1]
    around = f"{sentence[:start]} {sentence[end:]}"  # a choice may read "false", or "not supported"
    if HESITANT.search(around) or REFUSED.search(around) or _PART.search(around):
        return None
    if not _REST.fullmatch(sentence, end) or not STATES.search(sentence[:start]) or MIGHT.search(sentence[:start]):
        return None
    goes_on = denied or sentence[end:].strip(" .,!:;)]}'")
    return Claim("option-text", place.options.having(text), place.at, place.at + (stop if goes_on else end))


def _denies_the_others(sentence: str, mentions: Sequence[tuple[int, int, str]]) -> bool:
    """Whether all that follows the first of these choices is that it is not one of the others."""
    if len(mentions) < 2 or not (denied := _DENIED.match(sentence, mentions[0][1])):
        return False
    at = denied.end()
    for start, end, text in mentions[1:]:
        if start != at or text == mentions[0][2]:
            return False
        at = past(OR, sentence, end)
    return not sentence[at:].strip(" .,!;)")
