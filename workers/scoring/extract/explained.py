"""What reads like an answer and may belong to an explanation: `So A (the acid) donates a proton.`

Models announce their answer and then explain it, and letters name points, cars, acids and alleles there.
"""

from __future__ import annotations

import re

from workers.scoring.extract.answer import Answer, sentence_before
from workers.scoring.extract.hedged import is_hedged
from workers.scoring.extract.patterns import compiled
from workers.scoring.extract.several import is_only_called_right
from workers.scoring.extract.targets import Claim
from workers.scoring.extract.words import CONCLUDES, GOES_ON, JUDGED_RIGHT, TURNS, WORKS

__all__ = ["is_explanation", "is_no_conclusion", "is_reported", "is_role"]

_OUT = compiled(r"""
    [^.!?\n]{0,200}\b(?:wrong|incorrect|false|out|can't be|cannot be|fails|excluded|eliminated|contradicts
    |impossible)\b
""")
#: An aside behind a letter, with which its sentence goes on: "So A (the acid) donates", "So A, being heavier, sinks",
#: "So F (z) = 3z".
_ASIDE = compiled(r"""
    [)\]\"']{0,3}(?:\s?\([^()\n]{1,80}\)
    |\s-\s[^-.;:!?\n]{1,80}\s-
    |,\s(?!(?:because|since|as(?! (?:the|an?)\b)|given|due|for|so|but|and|or)\b)[^,.;:!?\n]{1,80},)
    (?=\s[a-z=+*/-])
""")
_IT_IS = re.compile(r"\s(?:it|he|she|they)\b")
#: The last words of a text that goes on with a conclusion in the same line: "… is in Spain. So B".
_CUT_OFF = re.compile(r"[.!?;)] (?:so|thus|hence|therefore),?\s(?:the\s)?[a-z]\Z")

#: … or with the first of several choices: "That leaves us with choices (B)".
_FIRST_OF_SEVERAL = re.compile(r"\b(?:options|choices|answers) [(\[]?[a-z][)\]]?\Z")

#: What is chosen for something of its own: "We choose A as the pivot."
_CHOSEN = re.compile(r"(?:choose|chose|select|selected|pick|picked)\s?\Z")
_AS = r"[)\]\"']{0,3} (?:as|to be) (?:the|our|an?|its)\b"
_CHOSEN_AS = re.compile(_AS)
_ROLE = compiled(rf"""
    {_AS} (?:\w{{1,15}} ){{0,2}}(?:pivot|origin|reference|baseline|axis|unit|vertex|cent(?:er|re)|start
    |(?:starting|end|reference) point|root)\b
""")

#: Before a step of a procedure, and how far the next one is looked for.
_STEP = re.compile(r"(?:^|[\n.!?;:]\s?)(?:step )?(\d{1,2})[.):]\s?\Z")
_STEP_REACH = 300

#: Before an answer that somebody gives, or that would follow: "this refutes the idea that", "they conclude".
_REPORTED = compiled(r"""
    (?:(?:(?<!\w)(?:that|where|think(?:ing|s)?|thought|conclud(?:e|es|ing)|believ(?:e|es|ing)|assum(?:e|es|ing)
    |suggests?|hints?|tells? us|sagen|denken|glauben|meinen|que|qu'|che|dass|daß|dat|att|że|že|что|що|hogy|bahwa|rằng)
    |कि|أن|که|کہ|ว่า)[\s,]{0,2}(?:[^\s,.;:]{1,12}\s){0,3}
    |^\s?(?:forgetting|ignoring|neglecting|overlooking|omitting|misreading|confusing|rejecting)\b[^.;:\n]{1,100})$
""")
#: It is the text's own conclusion: "I think that", "this means that".
_OWN = compiled(r"""
    \b(?:i|we|i'd|i'm|let's)\b[^,;:]{0,40}$
    |\b(?:this|it|which|that) (?:means|follows|implies|shows|confirms|proves|indicates|suggests|tells us)\b[^,;:]{0,40}$
""")
_PAST = re.compile(r"\b(?:was|were)\s?\Z")
_IF = re.compile(r"[)\]\"']{0,3},? (?:only |but only )?(?:if|unless|when)\b")


def is_no_conclusion(answer: Answer, claim: Claim, cue: re.Match[str]) -> bool:
    """Whether "so A" goes on with something about A, what is wrong about it or what else is right, or is cut off."""
    return (
        _is_cut_off(answer.lower, claim, cue)
        or _is_subject(answer.lower, claim.end)
        or is_only_called_right(answer, claim)
        or _OUT.match(answer.lower, claim.end) is not None
    )


def _is_cut_off(lower: str, claim: Claim, cue: re.Match[str]) -> bool:
    """Whether the text ends with the claim while its sentence, or its line, may go on."""
    behind_comma = lower[: cue.start()].rstrip().endswith(",")
    ends = (_CUT_OFF, _FIRST_OF_SEVERAL)
    return claim.end == len(lower) and (behind_comma or any(end.search(lower, max(0, claim.end - 20)) for end in ends))


def _is_subject(lower: str, end: int) -> bool:
    """Whether a sentence about something other than right and wrong goes on behind the letter that ends at `end`."""
    aside = _ASIDE.match(lower, end)
    verdicts = (JUDGED_RIGHT, GOES_ON, WORKS, _IT_IS)
    return aside is not None and not any(verdict.match(lower, aside.end()) for verdict in verdicts)


def is_role(answer: Answer, claim: Claim, cue: re.Match[str]) -> bool:
    """Whether `claim` only gives a part to a letter: `We choose A as the pivot`, `1. We pick A. 2. …`"""
    if not _CHOSEN.search(cue[0]):
        return False
    return _ROLE.match(answer.lower, claim.end) is not None or _is_step(answer.lower, claim, cue)


def _is_step(lower: str, claim: Claim, cue: re.Match[str]) -> bool:
    """Whether "we choose" is a numbered step, which another one follows; who says "I" gives a numbered answer."""
    begins = cue.end() - len(cue[0].lstrip(" .!?\n"))
    number = _STEP.search(lower, max(0, begins - 12), begins)
    if number is None or lower.startswith("i", begins):
        return False
    following = re.compile(rf"[.!?;\n]\s?(?:step )?{int(number[1]) + 1}[.):]\s")
    return following.search(lower, claim.end, claim.end + _STEP_REACH) is not None


def is_explanation(answer: Answer, claim: Claim, cue: re.Match[str]) -> bool:
    """Whether `claim` may only explain an answer given before, or hedge it.

    It is past, conditional, reported, possible, or chosen as something.
    """
    conditional = _IF.match(answer.lower, claim.end) is not None
    of_something = _CHOSEN.search(cue[0]) and _CHOSEN_AS.match(answer.lower, claim.end)
    begins = cue.end() - len(cue[0].lstrip())
    hedged = is_hedged(answer.lower, begins)
    return bool(_PAST.search(cue[0]) or conditional or of_something) or hedged or is_reported(answer.lower, begins)


def is_reported(lower: str, start: int) -> bool:
    """Whether the answer announced at `start` is one that somebody gave or supposed: `This refutes the idea that …`"""
    sentence = TURNS.split(sentence_before(lower, start))[-1]
    own = CONCLUDES.match(sentence) or _OWN.search(sentence)
    return _REPORTED.search(sentence) is not None and not own
