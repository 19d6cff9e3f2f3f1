"""The rule for a sentence that says the question's own words again, completed by one choice or its label.

`When did the war end?`, `The war ended in 1945.` Any other word might be the one that changes what is said (`began`,
`nearly`, `Tom believes`), so there may be none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from workers.scoring.extract.answer import Answer
from workers.scoring.extract.asked import Asked, Slot, words_of
from workers.scoring.extract.several import mentioned_labels
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
_WORD = re.compile(r"[^\W_]+")
_ARTICLE = re.compile(r"\b[Aa](?= \w)")
_NAMES_LABEL = r"(?P<marked>(?:[Oo]ption|[Cc]hoice|[Aa]nswer) \(?|\()?(?P<label>[A-Z])\)?"
_HENCE = r"(?:(?:[Tt]herefore|[Tt]hus|[Hh]ence|[Ss]o|[Oo]verall|[Cc]learly),? )?"
#: A sentence that begins with a label, or ends with one. An article is followed by no verb.
_ABOUT_LABEL = re.compile(rf"{_HENCE}{_NAMES_LABEL} (?:is|was|would be|are|were) (?P<rest>.+)", re.DOTALL)
_ENDS_WITH_LABEL = re.compile(rf"{_HENCE}(?P<rest>.+) (?:is|was|would be|are|were):? {_NAMES_LABEL}[.!]?\s*")


def completed_question(answer: Answer) -> Iterator[Claim]:
    """`The Second World War ended in 1945.`, `Option C is the capital of France.`"""
    yield from _with_text(answer)
    yield from _with_label(answer)


def _with_text(answer: Answer) -> Iterator[Claim]:
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


def _with_label(answer: Answer) -> Iterator[Claim]:
    """`Option B is the most likely diagnosis.`, `The most likely diagnosis is B.`; unless others follow, or doubts."""
    asked = answer.options.asked
    if asked is None or not asked.content or asked.slot is not Slot.FIRST or not answer.options.labelled:
        return
    claims = [claim for said in _SENTENCE.finditer(answer.text) if (claim := _labelled(said, asked, answer))]
    behind = claims[-1].end if claims else 0
    own = {label for claim in claims for label in claim.labels}
    if mentioned_labels(answer, behind, len(answer.text)) <= own and not _doubts(answer.lower[behind:]):
        yield from claims


def _labelled(said: re.Match[str], asked: Asked, answer: Answer) -> Claim | None:
    """The label that a sentence says all that is asked of, and nothing else."""
    found = _ABOUT_LABEL.fullmatch(said[0]) or _ENDS_WITH_LABEL.fullmatch(said[0])
    if found is None or (label := found["label"]) not in answer.options.labels or _is_a_name(label, answer):
        return None
    if not found["marked"] and _is_a_symbol(label, answer):
        return None
    words = words_of(found["rest"].lower())
    again = _PLAIN.fullmatch(found["rest"].lower()) and all(map(asked.knows, words))
    if not again or asked.repeated(words) < len(asked.content):
        return None
    others = answer.options.contradicts(answer.lower[said.start() + found.end("label") :], label)
    return Claim("completed-question", (label, *others), said.start(), said.end())


def _is_a_name(label: str, answer: Answer) -> bool:
    """Whether the question or its choices speak of something called like `label`: `vitamin C`, `points A and B`."""
    texts = (answer.options.question, *(text.upper() for text in answer.options.texts))
    return any(label in _WORD.findall(_ARTICLE.sub("", text)) for text in texts)


def _is_a_symbol(label: str, answer: Answer) -> bool:
    """Whether another choice begins with the letter, which may be short for it: C for carbon, A for the ampere."""
    others = (each for each in answer.options.labels if each != label)
    return any(answer.options.text(each).startswith(label.lower()) for each in others)


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
