"""The rule for a sentence that says the question's own words again, completed by one choice.

`When did the war end?`, `The war ended in 1945.` Any other word might be the one that changes what is said (`began`,
`nearly`, `Tom believes`), so there may be none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from workers.scoring.extract.answer import Answer
from workers.scoring.extract.asked import Asked, Slot, words_of
from workers.scoring.extract.targets import Claim
from workers.scoring.extract.words import HESITANT, MENTION, REFUSED, VERDICTS

__all__ = ["completed_question"]

_SENTENCE = re.compile(r"[^.!\n]*(?:[.!](?=\w)[^.!\n]*)*[.!\n]?\s*")
_MOST_SENTENCES, _LONGEST = 2, 600
_PLAIN = re.compile(r"[\w\s.,!'\"]*")
_PRONOUN = re.compile(r"(?:it|he|she|they)\s")
_ASKS_AGAIN = re.compile(r"(?:is|are|was|were|do|does|did|has|have|had|who|what|which|when|where|how|why)\b")
_FIRST = re.compile(r"[\"']?(?:the |an? )?$")
_FIRST_OF_ALL = re.compile(r"(?:(?:so|that is|that's|it is|it's|there are|there were) )?")
_BY = re.compile(r"\bby (?:the |an? )?$")
_TURNS = re.compile(r"\b(?:however|but|actually|yet|still)\b")


def completed_question(answer: Answer) -> Iterator[Claim]:
    """`The Second World War ended in 1945.`, `It ended in 1945.`, `Shakespeare wrote Hamlet.`, `18 pens`."""
    lower = answer.lower
    if len(lower) > _LONGEST or "?" in lower or MENTION.search(answer.text):
        return
    sentences = [found for found in _SENTENCE.finditer(lower) if found[0].strip()]
    mentions = list(answer.options.mentioned(lower))
    if len(sentences) > _MOST_SENTENCES or len({text for *_, text in mentions}) != 1:
        return
    if (asked := answer.options.asked) is None:
        return
    start, end, text = mentions[0]
    said = next(found for found in sentences if found.end() > start)
    if (
        len(mentions) > 1
        or not _is_news(asked, text)
        or any(_doubts(each[0]) for each in sentences if each is not said)
    ):
        return
    if _completes(asked, said[0], start - said.start(), end - said.start()):
        yield Claim("completed-question", answer.options.having(text), start, said.end())


def _is_news(asked: Asked, text: str) -> bool:
    """Whether a sentence that has this choice tells something by it: a letter may be any word, "no" deny any other."""
    return text not in asked.no_news and text not in VERDICTS and (len(text) > 1 or text.isdigit())


def _doubts(sentence: str) -> bool:
    return any(words.search(sentence) for words in (HESITANT, REFUSED, _TURNS))


def _completes(asked: Asked, sentence: str, start: int, end: int) -> bool:
    """Whether the choice from `start` to `end` stands in a `sentence` of the question's words where its answer does."""
    before, behind = sentence[:start], sentence[end:]
    words = words_of(f"{before} {behind}")
    if not _PLAIN.fullmatch(before + behind) or _ASKS_AGAIN.match(sentence) or not all(map(asked.knows, words)):
        return False
    first = _FIRST.fullmatch(before) is not None
    placed = {Slot.FIRST: first or _BY.search(before), Slot.LATER: not first, Slot.ANYWHERE: True}[asked.slot]
    repeated, wanted = asked.repeated(words), len(asked.content)
    counted = _FIRST_OF_ALL.fullmatch(before) and words_of(behind)[:1] == [asked.counted]
    covered = repeated == wanted or (_PRONOUN.match(sentence) and repeated)
    return bool(placed and repeated and (covered or counted))
