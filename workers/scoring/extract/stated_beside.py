"""The choice that a text states beside a label: `The capital of France is Paris. Therefore A.`

If that is another choice than the label's, nobody knows which one is meant; nor if it is the line above or below.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain

from workers.scoring.extract.answer import Answer, sentence_before, stated
from workers.scoring.extract.asked import words_of
from workers.scoring.extract.completed import completed_question
from workers.scoring.extract.cues import ANSWER_IS
from workers.scoring.extract.normalize import folded
from workers.scoring.extract.option_text import option_text
from workers.scoring.extract.patterns import compiled, past
from workers.scoring.extract.targets import Claim
from workers.scoring.extract.words import HESITANT, TURNS

__all__ = [
    "alone_before",
    "alone_behind",
    "announced_before",
    "is_opinion_behind_label",
    "stated_above",
    "stated_before",
    "stated_behind",
]

_THINKS = r"(?:i|we)(?:'d| would)? (?:believe|think|guess|suppose|feel|say|choose|pick|select|go with)(?: that)?,?"
#: How an explanation is headed.
_HEADING = r"#{0,6}\s?(?:explanation|reasoning|reason|rationale|justification|because)(?:\s?:|\n)[\s*-]*"
#: The sentence behind an answer, which explains it.
_BEHIND = compiled(rf"""
    [\s.,:;!)\]}}\"'*-]*(?:{_HEADING})?(?:(?:because|since|as) )?(?P<thinks>{_THINKS}\s)?
    (?P<said>[^.!?\n]*(?:[.!?](?=\w)[^.!?\n]*)*)
""")
#: "A) I would say": nothing but a label and an opinion.
_LABEL_THINKS = re.compile(rf"[\s>*•#\"'-]{{0,6}}[(\[]?[a-z][.)\]]{{1,2}}\s?{_THINKS}\Z")
#: Before an answer in its line, or before the words that call it so; and what may stand behind it.
_OPENS = compiled(r"""
    [^\w\n]{0,10}(?:(?:so|thus|hence|therefore)\b,?\s?)?(?:(?:the|my|die|la|el|le|a|o)\s)?(?:(?:final|correct|right)\s)?
    (?:(?:option|choice|letter)\s)?
""")
_MARKS = re.compile(r"[\s.,:;!)\]}\"'*|]*")
#: The answer corrects what stands before it.
_CORRECTS = re.compile(r"\b(?:actually|in fact|now|better|still)\b")
_WHY = re.compile(rf"\s*(?:$|{_HEADING}|because\b)")
#: What may be said of the answer, where it is a choice as well.
_JUDGEMENTS = frozenset({"correct", "incorrect", "right", "wrong"})
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
    """The choice that the next sentence answers with: `A, because the capital of France is Paris.`

    It may be headed, or an opinion: `A`, then `Explanation: …`; `A. I would say Paris.`
    """
    found = _BEHIND.match(answer.lower, end)
    if found is None:
        return None
    if found["thinks"] and (labels := answer.options.having(folded(found["said"]))):
        return Claim("option-text", labels, *found.span("said"))
    return _answered(answer, *found.span("said"))


def is_opinion_behind_label(answer: Answer, start: int) -> bool:
    """Whether the text begins with a label and an opinion, which goes on at `start`: `A) I would say Paris`."""
    return _LABEL_THINKS.match(answer.lower, 0, start) is not None


def alone_before(answer: Answer, claim: Claim) -> Claim | None:
    """The choice that is all of the line above the answer's, which says nothing else: `Paris`, then `Answer: A`."""
    own = _own_line(answer, claim)
    end = len(answer.text[: own[0]].rstrip("\n")) if own else 0
    start = answer.text.rfind("\n", 0, end) + 1
    head = answer.lower[:start].rstrip("\n").rpartition("\n")[2]
    not_meant = head.endswith(":") and HESITANT.search(head)  # "These are wrong:"
    return None if not_meant else _alone(answer, start, end)


def alone_behind(answer: Answer, claim: Claim) -> Claim | None:
    """The same of the line below it, if nothing but an explanation follows: `Answer: A`, then `Paris`."""
    own = _own_line(answer, claim)
    start = own[1] + 1 if own else len(answer.text)
    start += len(answer.text[start:]) - len(answer.text[start:].lstrip("\n"))
    end = answer.text.find("\n", start)
    end = len(answer.text) if end < 0 else end
    return _alone(answer, start, end) if _WHY.match(answer.lower, end) else None


def announced_before(answer: Answer, claims: Sequence[Claim]) -> list[Claim]:
    """The choice announced at the end of the line above that of the last claim: `The answer is Paris.`, `Answer: A`."""
    last = claims[-1]
    own = _own_line(answer, last) if last.labels and last.rule != "option-text" else None
    start = own[0] if own else 0
    texts = (each for each in claims if each.rule == "option-text" and not each.weak and each.end < start)
    above = (each for each in texts if _MARKS.fullmatch(answer.text, each.end, start))
    return [each for each in above if not set(last.labels) & set(each.labels)]  # choices may read alike


def _own_line(answer: Answer, claim: Claim) -> tuple[int, int] | None:
    """Where the line of `claim` begins and ends, if it is all of it, but for what announces it."""
    start, end = answer.text.rfind("\n", 0, claim.start) + 1, answer.text.find("\n", claim.end)
    end = len(answer.text) if end < 0 else end
    opened = past(_OPENS, answer.lower[: claim.start], start)
    announced = opened == claim.start or any(
        cue.pattern.fullmatch(answer.lower, at, claim.start) for cue in ANSWER_IS for at in (start, opened)
    )
    corrects = _CORRECTS.search(answer.lower, start, claim.end)
    return (start, end) if announced and not corrects and _MARKS.fullmatch(answer.text, claim.end, end) else None


def _alone(answer: Answer, start: int, end: int) -> Claim | None:
    """The choice that is all of the line from `start` to `end`, if no other line is another: they may be listed."""
    labels = _all_of(answer.text[start:end], answer)
    if not labels or any(_all_of(line, answer) not in {(), labels} for line in answer.text.split("\n")):
        return None
    return Claim("option-text", labels, start, end)


def _all_of(line: str, answer: Answer) -> tuple[str, ...]:
    """The choice that is all of `line`, which is no heading; one that reads like a label or a judgement is none."""
    if "?" in line or line.startswith("#") or line.endswith(":"):
        return ()
    bare = line.lstrip(">*• ").removeprefix("- ")
    said = map(folded, (line, bare, bare.strip("()[] .!")))
    labels = next(filter(None, map(answer.options.having, said)), ())
    text = answer.options.text(labels[0]) if labels else ""
    return () if text in _JUDGEMENTS or text.upper() in tuple(answer.options.labels) else labels


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
