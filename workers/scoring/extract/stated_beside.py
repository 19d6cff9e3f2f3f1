"""The choice that a text states beside a label: `The capital of France is Paris. Therefore A.`

If that is another choice than the label's, nobody knows which one is meant.
"""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import chain

from workers.scoring.extract.answer import Answer, sentence_before, stated
from workers.scoring.extract.asked import words_of
from workers.scoring.extract.completed import completed_question
from workers.scoring.extract.option_text import option_text
from workers.scoring.extract.targets import Claim
from workers.scoring.extract.words import TURNS

__all__ = ["stated_above", "stated_before", "stated_behind"]

#: The sentence behind an answer, which explains it.
_BEHIND = re.compile(r"[\s.,:;!)\]}\"'*-]*(?:(?:because|since|as) )?(?P<said>[^.!?\n]*(?:[.!?](?=\w)[^.!?\n]*)*)")
_IT_IS = re.compile(r"(?:so )?(?:it|this|that)(?:'s| is| was)\b")


def stated_above(answer: Answer, end: int) -> Claim | None:
    """The choice that the text up to `end` would be read as if it were all: by its text, or the question's words."""
    above = answer.text[:end].rstrip()
    rest = _part(answer, 0, len(above))
    return next(chain(option_text(rest), completed_question(rest)), None)


def stated_before(answer: Answer, start: int) -> Claim | None:
    """The choice that the sentence or clause before the one which concludes at `start` answers with.

    `It's Paris, so A.`
    """
    sentence = sentence_before(answer.lower, start)
    turns = [found.start() for found in TURNS.finditer(sentence)]
    begins = start - len(sentence) + (turns[-1] if turns else 0)
    end = len(answer.lower[:begins].rstrip(" \n.!,;-"))
    return _answered(answer, end - len(sentence_before(answer.lower, end)), end)


def stated_behind(answer: Answer, end: int) -> Claim | None:
    """The choice that the next sentence answers with: `A, because the capital of France is Paris.`"""
    found = _BEHIND.match(answer.lower, end)
    return _answered(answer, *found.span("said")) if found else None


def _answered(answer: Answer, start: int, end: int) -> Claim | None:
    """The choice with which the sentence from `start` to `end` answers: in the question's words, or as `It's Paris`."""
    asked, rest = answer.options.asked, _part(answer, start, end)
    claim = next(chain(completed_question(rest), filter(None, [stated(rest.place())])), None)
    if asked is None or claim is None:
        return None
    words = words_of(rest.lower.replace(answer.options.text(claim.labels[0]), " "))
    again = all(map(asked.knows, words)) and asked.repeated(words) == len(asked.content)
    return replace(claim, start=start, end=end) if again or (_IT_IS.match(rest.lower) and len(words) < 3) else None


def _part(answer: Answer, start: int, end: int) -> Answer:
    text = answer.text[start:end]
    return answer._replace(marked=text, text=text, lower=answer.lower[start:end])
