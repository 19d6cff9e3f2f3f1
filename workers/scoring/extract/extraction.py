"""From a model's text to the choice it names, or to the reason why none can be read."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from workers.scoring.extract.answer import Answer
from workers.scoring.extract.explicit import called_right
from workers.scoring.extract.hedged import also_possible, is_less_likely
from workers.scoring.extract.implicit import final_label, leading_label
from workers.scoring.extract.json_answer import json_answers
from workers.scoring.extract.lists import DENIAL
from workers.scoring.extract.options import Options
from workers.scoring.extract.other_cases import is_hypothetical, split_other_cases
from workers.scoring.extract.parts import answered_before
from workers.scoring.extract.rules import EXPLICIT, IMPLICIT
from workers.scoring.extract.several import also_right, is_beside, mentioned_labels
from workers.scoring.extract.stated_beside import (
    alone_before,
    alone_behind,
    announced_before,
    is_opinion_behind_label,
    stated_before,
    stated_behind,
)
from workers.scoring.extract.targets import Claim
from workers.scoring.extract.visible_text import spoken_on
from workers.scoring.extract.words import (
    CONFIRMED,
    CONTRADICTED,
    CORRECTED,
    CORRECTED_HERE,
    DENIED_NEXT,
    HEDGED,
    NOT_RIGHT,
    OR,
    RETRACTED,
)

__all__ = ["Extraction", "extract", "extract_said", "read_on"]

#: Between two answers of which neither is the last word.
_BESIDE = re.compile(rf"(?: ?|{OR.pattern}(?:(?:correct |right |final )?answers?(?: is| are|:))?)\s?")
_EQUATED = re.compile(r",? which (?:is|corresponds to|matches|means)")
#: How much is read after the last answer to see whether it is taken back.
_REACH = 3000


@dataclass(frozen=True, slots=True)
class Extraction:
    """What was read from a text, and by which rule.

    Without a label, `rule` says why: `none` (nothing to read), `ambiguous` (several answers, named in `candidates`),
    `retracted` (the last answer was taken back, or called less likely than another, and no other given),
    `no-such-choice` (the answer names no choice),
    `unfinished-reasoning` (the model was cut off while it still reasoned).
    """

    label: str | None
    rule: str
    candidates: tuple[str, ...] = ()


def extract(text: str, choices: Sequence[str], question: str = "", *, labelled: bool = True) -> Extraction:
    """The choice that `text` names, as a label from A.

    With the `question` that was asked, "C is false" is an answer where the false statement is asked for. Where the
    model was not shown the choices (not `labelled`), only their texts can name them: its "A" may be a blood group.

    `extract("I'd say A. No, wait, the answer is **C**.", ["Berlin", "Rome", "Paris"])` is
    `Extraction("C", "answer-statement")`.
    """
    return read_on(text, choices, question, lambda said: extract_said(said, choices, question, labelled=labelled))[1]


def read_on(
    text: str, choices: Sequence[str], question: str, read: Callable[[str], Extraction]
) -> tuple[str, Extraction]:
    """What `text` says to the reader before any further question, and what `read` makes of it.

    More of it for as long as that names nothing and what follows only restates the `question`.
    """
    said, found = "", Extraction(None, "unfinished-reasoning")
    for said in spoken_on(text, choices, question):
        found = read(said)
        if found.rule != "none":
            break
    return said, found


def extract_said(said: str, choices: Sequence[str], question: str = "", *, labelled: bool = True) -> Extraction:
    """`extract` from what is `said` to the reader."""
    options = Options.of(choices, question, labelled=labelled)
    found = _read_said(said, options)
    if labelled:
        return found
    label = found.label and options.shown(found.label)
    return replace(found, label=label, candidates=tuple(map(options.shown, found.candidates)))


def _read_said(said: str, options: Options) -> Extraction:
    values = list(dict.fromkeys(json_answers(said)))
    if values and not any(value.strip() for value in values):
        return Extraction(None, "none")
    read = [_read(Answer.of(f"Answer: {value}", options)) for value in values]
    labels = {label for found in read for label in (found.label, *found.candidates) if label}
    if len(labels) > 1:
        return Extraction(None, "ambiguous", tuple(sorted(labels)))
    if read:
        return next((found for found in read if found.label), read[0])
    return _read(Answer.of(said, options))


def _read(answer: Answer) -> Extraction:
    claims = sorted((claim for rule in EXPLICIT for claim in rule(answer)), key=lambda claim: claim.start)
    given, elsewhere = split_other_cases(claims, answer.lower)
    if given and elsewhere and _is_retracted(given[-1], answer, elsewhere[0].start):
        given, elsewhere = claims, []
    found = _last_word(given, answer) if given else _implied(answer, elsewhere)
    if given and given[-1].rule in {"option-text", "number"} and (later := _label_below(answer, given[-1])):
        found = later
    return _beside_other_cases(found, elsewhere, answer) if elsewhere else found


def _label_below(answer: Answer, claim: Claim) -> Extraction | None:
    """A label alone in the last line, below what was announced before it: `The solution is x = 2.`, then `**A) 1**`."""
    final = final_label(answer, claim.end)
    if not final or final == claim.labels:
        return None
    is_step = not answer.options.numbered  # numbers are announced on the way; of texts, both may be meant
    return (
        Extraction(final[0], "lone-label")
        if is_step and len(final) == 1
        else _only([replace(claim, labels=final), claim])
    )


def _implied(answer: Answer, elsewhere: list[Claim]) -> Extraction:
    """What the first rule reads that needs no announcement, other than the claims that may speak of another case."""
    passed = {(claim.start, claim.end) for claim in elsewhere}
    for rule in IMPLICIT:
        if found := [claim for claim in rule(answer) if (claim.start, claim.end) not in passed]:
            if _is_retracted(found[0], answer):
                return Extraction(None, "retracted", found[0].labels)
            return _only([*found, *_stated(found[-1], answer), _with_possible(found[-1], answer)])
    return Extraction(None, "none")


def _beside_other_cases(found: Extraction, elsewhere: list[Claim], answer: Answer) -> Extraction:
    """What was `found` in a text that ends with claims which may speak of another case."""
    if found.label is None:
        return found if found.candidates else _only(elsewhere)
    contradicts = [
        claim for claim in elsewhere if claim.labels != (found.label,) and not is_hypothetical(claim, answer.lower)
    ]
    labels = {found.label, *(label for claim in contradicts for label in claim.labels)}
    return Extraction(None, "ambiguous", tuple(sorted(labels))) if contradicts else found


def _last_word(claims: list[Claim], answer: Answer) -> Extraction:
    """The last claim, if it stands."""
    last = claims[-1]
    listed = {label for claim in claims for label in claim.labels}
    if len(last.labels) == 1 and len(claims) == len(listed) == len(answer.options.labels) > 2:
        return Extraction(None, "ambiguous", tuple(sorted(listed)))
    if _is_retracted(last, answer) or is_less_likely(answer, claims):
        return Extraction(None, "retracted", last.labels)
    if (part := answered_before(claims, answer.lower)) and not _is_retracted(part, answer, last.start):
        return _only([part, last])
    too = _with_possible(replace(last, labels=tuple({*last.labels, *also_right(answer, last)})), answer)
    later = [] if answer.options.sought else called_right(answer, last.end)
    above = [each for each in announced_before(answer, claims) if not _is_retracted(each, answer, last.start)]
    others = [*_beside(claims, answer), *_joined(claims, answer), *_explained(claims, answer), *_stated(last, answer)]
    return _only([*others, *above, *later, too, last])


def _with_possible(claim: Claim, answer: Answer) -> Claim:
    """`claim`, with the other choices that are called possible behind it."""
    return replace(claim, labels=tuple({*claim.labels, *also_possible(answer, claim)}))


def _beside(claims: list[Claim], answer: Answer) -> list[Claim]:
    """The claims that the last one is added to: `The answer is A. The answer is also C.`; none where they fell."""
    found: list[Claim] = []
    last, at = claims[-1], len(claims) - 1
    while at > 0 and is_beside(answer, last):
        at = next((n for n in range(at - 1, -1, -1) if claims[n].end <= last.start), -1)
        if at < 0 or _is_retracted(claims[at], answer, last.start):
            break
        last = claims[at]
        found.append(last)
    return found


def _explained(claims: list[Claim], answer: Answer) -> list[Claim]:
    """The answer that a weak last claim may only explain: `The answer is C. So A …`; none where that one fell.

    So may be the label that the text begins with, where an opinion follows: `A) I would say Paris.`
    """
    last = claims[-1]
    if last.rule == "option-text" and is_opinion_behind_label(answer, last.start):
        return list(leading_label(answer))
    around = (claim for claim in claims if claim.end == last.end and claim.start < last.start)
    if not (last.weak and all(claim.weak for claim in around)):  # "Actually, it's C"
        return []
    announced = [claim for claim in claims if not claim.weak and claim.end <= last.start]
    before = announced[-1:] or list(leading_label(answer))
    return [claim for claim in before if not _is_retracted(claim, answer, last.start)]


def _stated(claim: Claim, answer: Answer) -> list[Claim]:
    """The choice that the text states before or behind a label, unless it falls, or the label has its own text."""
    own = answer.options.text(claim.labels[0]) if len(claim.labels) == 1 and claim.rule != "option-text" else ""
    if not own or own in answer.lower[claim.start : claim.end]:
        return []
    before = stated_before(answer, claim.start) or alone_before(answer, claim)
    behind = stated_behind(answer, claim.end) or alone_behind(answer, claim)
    stands = before and not _is_retracted(before, answer, claim.start)
    others = (before if stands else None, behind)
    return [each for each in others if each and claim.labels[0] not in each.labels]  # choices may read alike


def _joined(claims: list[Claim], answer: Answer) -> list[Claim]:
    """The claim that the last one stands beside: `\\boxed{A} or \\boxed{C}`, `Rome, which is option C`; else none."""
    last = claims[-1]
    other = next((claim for claim in reversed(claims) if claim.end != last.end), last)
    between = answer.lower[other.end : last.start]
    equated = other.rule == "option-text" and _EQUATED.fullmatch(between)
    return [other] if equated or _BESIDE.fullmatch(between) else []


def _is_retracted(claim: Claim, answer: Answer, until: int | None = None) -> bool:
    """Whether the text behind `claim`, as far as `until`, takes it back."""
    end = min(claim.end + _REACH, len(answer.text) if until is None else until)
    behind = answer.lower[claim.end : end]
    if (found := RETRACTED.search(behind)) and not _is_confirmed(claim, answer, behind[found.end() :]):
        return True
    if CONTRADICTED.match(behind) or (NOT_RIGHT.match(behind) and not answer.options.sought):
        return True
    if not claim.labels:
        return False
    label = claim.labels[0]
    if DENIED_NEXT.match(behind) and not answer.options.text(label).startswith("no"):
        return True
    corrections = (CORRECTED.match(behind), CORRECTED_HERE.match(behind))
    if any(_names_another(answer, claim.end + each.start(1), each[1], label) for each in corrections if each):
        return True
    denied = rf"(?i:answer|it) (?i:is|was) not (?i:option )?[(\"']?{label}(?![\w'])"
    return re.search(denied, answer.text[claim.end : end]) is not None


def _is_confirmed(claim: Claim, answer: Answer, behind: str) -> bool:
    """Whether the second look `behind` an answer ends with it, without naming another choice on the way."""
    found = CONFIRMED.search(behind)
    if found is None or not claim.labels or behind[found.end() :].strip(" .!"):
        return False
    own = answer.options.text(claim.labels[0])
    return "wrong" not in behind and {text for *_, text in answer.options.mentioned(behind)} <= {own}


def _names_another(answer: Answer, start: int, sentence: str, label: str) -> bool:
    """Whether `sentence`, which begins at `start`, prefers another choice than `label`."""
    labels = mentioned_labels(answer, start, start + len(sentence))
    texts = {each for *_, text in answer.options.mentioned(sentence) for each in answer.options.having(text)}
    return bool((labels | texts) - {label}) and not DENIAL.search(sentence) and not HEDGED.search(sentence)


def _only(claims: list[Claim]) -> Extraction:
    labels = tuple(sorted({label for claim in claims for label in claim.labels}))
    if not labels:
        return Extraction(None, "no-such-choice")
    if len(labels) > 1:
        return Extraction(None, "ambiguous", labels)
    return Extraction(labels[0], claims[-1].rule)
