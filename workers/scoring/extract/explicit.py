"""Rules for answers that are announced as such."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import replace

from workers.scoring.extract.answer import Answer, is_taken_back, stated
from workers.scoring.extract.cues import CUES
from workers.scoring.extract.explained import is_explanation, is_no_conclusion, is_reported, is_role
from workers.scoring.extract.implicit import whole_label
from workers.scoring.extract.normalize import lowered
from workers.scoring.extract.other_cases import of_another_case
from workers.scoring.extract.patterns import compiled
from workers.scoring.extract.several import is_one_of_several
from workers.scoring.extract.targets import Claim, Place, read_target
from workers.scoring.extract.verb_last import STANDS
from workers.scoring.extract.words import DENIED_AFTER, JUDGED_RIGHT, WORKS

__all__ = ["answer_statement", "answer_tag", "boxed", "called_right", "judged_label"]

_MOST = 200
_BOX = re.compile(r"(?:\\(?:boxed|fbox) ?\{\s{0,2}){1,2}((?:[^{}\n]|\{[^{}\n]{0,200}\}){0,300})\s{0,2}\}")
_NOT = re.compile(r"\b(?:not|never) \Z")
_TAG = re.compile(r"<(answer|final_answer|choice|solution)>([^<>]{0,500})</\1>", re.IGNORECASE)
#: One that was stopped at its end, as by `sampling.stop: ["</answer>"]`; or a box.
_OPEN = re.compile(
    r"(?:<(?:answer|final_answer|choice|solution)>|\\(?:boxed|fbox) ?\{)([^<>{}\n]{1,200})(?:</?\w{0,15})?\s?\Z",
    re.IGNORECASE,
)


def _last(pattern: re.Pattern[str], text: str) -> Iterable[re.Match[str]]:
    """The matches that can matter where the last word stands: a text in a loop announces ten thousand answers."""
    return deque(pattern.finditer(text), maxlen=_MOST)


def boxed(answer: Answer) -> Iterator[Claim]:
    """`\\boxed{C}`, `\\boxed{(C) Paris}`, `\\fbox{Paris}`."""
    for box in _last(_BOX, answer.text):
        yield from _enclosed(answer, box, 1, "boxed")


def answer_tag(answer: Answer) -> Iterator[Claim]:
    """`<answer>C</answer>`; open at the end of the text, only a label, as a text may have been cut off."""
    for tag in _last(_TAG, answer.text):
        yield from _enclosed(answer, tag, 2, "answer-tag")
    if (left := _OPEN.search(answer.text)) and (label := whole_label(left[1], answer)):
        yield Claim("answer-tag", label, left.start(), left.end())


def _enclosed(answer: Answer, found: re.Match[str], group: int, rule: str) -> Iterator[Claim]:
    content = found[group].strip()
    place = Place(content, lowered(content), answer.options)
    claim = read_target(place, rule) or _stated(place)
    denied = _NOT.search(answer.lower, max(0, found.start() - 12), found.start())
    if claim is not None and not denied and not DENIED_AFTER.match(answer.lower, found.end()):
        yield replace(claim, start=found.start(), end=found.end())


def answer_statement(answer: Answer) -> Iterator[Claim]:
    """`The answer is C`, `Antwort: C`, `正解はC`, `I would choose option C`, `So it's C`, `C is the correct answer`."""
    for cue in CUES:
        for found in _last(cue.pattern, answer.lower):
            if is_taken_back(answer.lower, found.end() - len(found[0].lstrip(" #\n"))):
                continue
            if not cue.clear and answer.options.having(found[0].strip(" .,!?\n")):
                continue  # "Yes" is a choice here, and no word before one
            place = answer.place(found.end(), clear=cue.clear)
            claim = read_target(place, "answer-statement")
            if claim is None and cue.sentence:
                claim = _stated(place)
            if claim is None or is_role(answer, claim, found):
                continue
            if cue.verb_last and not STANDS.match(answer.lower, claim.end):
                continue
            if not (cue.hence and is_no_conclusion(answer, claim, found)):
                yield replace(claim, weak=cue.weak or is_explanation(answer, claim, found))
    yield from (claim for claim, only in _judged(answer) if only)
    yield from _judged_texts(answer)


#: `B = 18`, where B is a label as well.
_EQUATED = re.compile(r"[\s:]{0,3}(?:[Oo]ption |[Cc]hoice )?[(\[\"']{0,2}([A-Z])[)\]\"']{0,2}\s?=")


def _stated(place: Place) -> Claim | None:
    """The choice that is stated at `place`, and the one whose label is equated with it, if that is another."""
    claim, label = stated(place), _EQUATED.match(place.text, place.at)
    if claim is None or label is None or label[1] not in place.options.labels:
        return claim
    return replace(claim, labels=tuple(sorted({*claim.labels, label[1]})))


_THE_ANSWER = re.compile(r"\bthe (?:\w{1,15} )?(?:answer|choice|option)\b|\bit is\b")
#: A choice that a sentence begins with.
_BEGINS = re.compile(r"(?:^|[\n.,;!?]\s?|\b(?:so|hence|thus|therefore|that) )[\"']?$")
#: "Only option C works."
_ONLY = re.compile(r"\bonly (?:option |choice |answer )?[(\"']{0,2}$")
#: What is called so is called the answer; "the faster one" may be a car.
_CALLED_ANSWER = compiled(r"""
    \banswer$|\b(?:correct|right|true) one$|\b(?:correct|right|best|better|only|final|valid|true|intended|likely
    |appropriate|suitable|accurate|plausible|probable|reasonable|logical|fitting|remaining) (?:choice|option)$
""")
_LABEL_SUBJECT = compiled(r"""
    (?:^|[\n.,;:!?(\"']\s?|(?<![a-z])(?:option|choice|answer|letter|antwort|that|only|believe|think|so|hence|thus
    |therefore|la|el|lettre|opción|alternativa)\s|(?:因此|所以|故此?|综上|选项|選項|選択肢|विकल्प\s)[，：]?)[(\"']{0,2}([a-z])(?![a-z\d'])(?:选项|選項|项|項)?
""")


#: A letter that is called true or false, as those of an assertion (A) and its reason (R), or of statements P and Q; not
#: I, V and X, which count statements.
_JUDGED_LETTER = re.compile(r"(?<![\w'])([A-HJ-UWYZ]) is (?:true|false|right|wrong|correct|incorrect)\b")
#: What is called so is a label.
_OPTION = re.compile(r"(?:option|choice|answer|letter|antwort|lettre|opción|alternativa)\s")


def _judged(answer: Answer) -> Iterator[tuple[Claim, bool]]:
    """Every label called right, and whether it is *the* answer.

    Where letters that are no labels are judged, too, one that is only "correct" may be no label, either.
    """
    others_judged = not {*answer.options.labels}.issuperset(_JUDGED_LETTER.findall(answer.text))
    for found in _last(_LABEL_SUBJECT, answer.lower):
        label = answer.text[found.start(1)]
        if label not in answer.options.labels:
            continue
        own = answer.options.follows(answer.place(0).said(found.end(1)), label)
        verdict = JUDGED_RIGHT.match(answer.lower, found.end()) or JUDGED_RIGHT.match(answer.lower, found.end(1) + own)
        only = bool(verdict and verdict["only"])
        if verdict is None and _ONLY.search(answer.lower, max(0, found.start(1) - 20), found.start(1)):
            verdict = WORKS.match(answer.lower, found.end(1) + own)
            only = verdict is not None
        if verdict is None or answer.lower[verdict.end() :][:1] == "?":
            continue
        if others_judged and not only and not _OPTION.search(found[0]):
            continue
        if not is_taken_back(answer.lower, found.start(1)):
            weak = _is_weak(answer.lower, found.start(1), verdict)
            # "A is right", where a choice is "A"
            bare = own == 0 and not _OPTION.search(found[0]) and answer.lower[found.end(1) :][:1] != ")"
            labels = {label, *(answer.options.having(label.lower()) if bare else ())}
            yield Claim("answer-statement", tuple(sorted(labels)), found.start(1), verdict.end(), weak), only


_ALSO = re.compile(r"\b(?:also|too|as well)\b")


def called_right(answer: Answer, start: int) -> list[Claim]:
    """The labels called right from `start` on, but not beside another one, nor for another case."""
    found = (claim for claim, _ in _judged(answer) if claim.start >= start)
    return [
        claim
        for claim in found
        if not _ALSO.search(answer.lower, claim.start, claim.end + 12) and not of_another_case(claim, answer.lower)
    ]


def _is_weak(lower: str, start: int, verdict: re.Match[str]) -> bool:
    """Whether the verdict on what begins at `start` may be part of an explanation."""
    return _CALLED_ANSWER.search(verdict[0]) is None or is_reported(lower, start)


def _judged_texts(answer: Answer) -> Iterator[Claim]:
    """`Paris is the correct answer.`"""
    if not _THE_ANSWER.search(answer.lower):
        return
    for start, end, text in deque(answer.options.mentioned(answer.lower), maxlen=_MOST):
        verdict = JUDGED_RIGHT.match(answer.lower, end)
        begins = _BEGINS.search(answer.lower, max(0, start - 12), start) is not None
        letter = len(text) == 1 and text.upper() in answer.options.labels
        if letter or not verdict or not verdict["only"] or not begins or is_taken_back(answer.lower, start):
            continue
        weak = _is_weak(answer.lower, start, verdict)
        claim = Claim("option-text", answer.options.having(text), start, verdict.end(), weak)
        if not of_another_case(claim, answer.lower):
            yield claim


def judged_label(answer: Answer) -> Iterator[Claim]:
    """`(C) is correct.`, `I believe C is right`; nothing where another may be, too, or a false one is sought."""
    if answer.options.sought and answer.options.sought.false_statement:
        return
    claims = [claim for claim, _ in _judged(answer)]
    if not any(is_one_of_several(answer, claim) for claim in claims):
        yield from (replace(claim, rule="judged-label") for claim in claims)
