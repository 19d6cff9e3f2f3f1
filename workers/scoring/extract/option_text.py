"""The rule for answers that give a choice's own text instead of a label, without announcing it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from workers.scoring.extract.answer import MIGHT, STATES, Answer, stated
from workers.scoring.extract.normalize import folded, lowered
from workers.scoring.extract.targets import Claim
from workers.scoring.extract.words import BEGINS_TO_THINK, CONCLUDES, HESITANT, MENTION, REFUSED, VERDICTS

__all__ = ["option_text"]


def option_text(answer: Answer) -> Iterator[Claim]:
    """`Paris`, `"Paris."`, `It's Paris.`, `Yes, because …`: all of the text, or where it begins or ends."""
    if whole := answer.options.having(folded(answer.text)):
        yield Claim("option-text", whole, 0, len(answer.text))
    elif not REFUSED.search(answer.lower):
        lines = [line for line in answer.text.split("\n") if line]
        yield from (_own_line(lines, answer) or _said_line(lines, answer)) if len(lines) > 1 else _one_line(answer)


def _own_line(lines: list[str], answer: Answer) -> list[Claim]:
    """The first or the last line, if it is a choice and no other line is another, nor goes on from it: `= 18`.

    A number is none that goes on with a numbered list and was cut off there: `1. We add them.`, `2`.
    """
    last = lines[-1].strip(" .)")
    item = f"{int(last) - 1}" if last.isdecimal() and len(last) < 3 else ""
    if any(line.startswith("=") or (item and line.startswith((f"{item}.", f"{item})"))) for line in lines):
        return []
    named = [answer.options.having(folded(line)) for line in lines]
    one = (named[0] or named[-1]) and len({labels for labels in named if labels}) == 1
    if not one:
        return []
    end = len(answer.text) if named[-1] else len(lines[0])
    return [Claim("option-text", named[-1] or named[0], 0, end)]


_HENCE_VERDICT = re.compile(r"\b(?:so|thus|hence|therefore),? (yes|no|true|false|maybe|correct|incorrect)(?=[,.!]|$)")
_MUST_BE = re.compile(r"\b(?:must|has to|can only) be (?:the |an? )?$")
_TURNS_AWAY = re.compile(r"\b(?:however|but|actually|on the other hand)\b")


def _said_line(lines: list[str], answer: Answer) -> list[Claim]:
    """The choice that the text begins with or that its last line states, if the text names no other.

    `No, it is not.` before an explanation, `So the statement is false.` behind one. What any other line states may be a
    step on the way, as may any number.
    """
    claims: list[Claim | None] = []
    if not _TURNS_AWAY.search(answer.lower):
        claims += _leading_text(answer)
        claims += [stated(answer.place(0))] if VERDICTS.issuperset(answer.options.texts) else []
    if answer.options.numbered and not MENTION.search(lines[-1]):  # "Option A: Berlin" begins to go through them
        claim = stated(answer.place(answer.text.rfind(lines[-1])))
        claims += [claim if claim and _ends_at(answer, claim) else None]
    if (concluded := _concluded(lines[-1], answer)) is not None:
        return [concluded]
    claims += _concluded_verdict(answer)
    named = _named(answer.lower, answer)
    return [claim for claim in claims if claim and named <= {answer.options.text(claim.labels[0])}][:1]


def _concluded(line: str, answer: Answer) -> Claim | None:
    """What the last line or sentence concludes, whatever was named before: `Therefore, the city must be Paris.`"""
    lower = lowered(line)
    mentions = list(answer.options.mentioned(lower))
    concludes = CONCLUDES.match(lower)
    if not answer.options.numbered or not concludes or len({text for *_, text in mentions}) != 1:
        return None
    start, end, text = mentions[-1]
    stated_so = STATES.search(lower[concludes.end() : start]) or _MUST_BE.search(lower, 0, start)
    if (
        not stated_so
        or MIGHT.search(lower, 0, start)
        or lower[end:].strip(" .!*)\"'")
        or HESITANT.search(lower, concludes.end(), start)
    ):
        return None
    return Claim("option-text", answer.options.having(text), len(answer.text) - len(line), len(answer.text))


def _ends_at(answer: Answer, claim: Claim) -> bool:
    return not answer.lower[claim.end :].strip(" .,!:;)]}'\"\n")


def _named(said: str, answer: Answer) -> set[str]:
    """The choices that `said` names. A verdict is one only where it stands alone, unlike in "there is no doubt"."""
    verdicts = VERDICTS.issuperset(answer.options.texts)
    return {
        text for _, end, text in answer.options.mentioned(said) if not verdicts or not re.match(r"\s\w", said[end:])
    }


_SENTENCES = re.compile(r"(?<=[.!]) (?=[A-Z])")


def _one_line(answer: Answer) -> Iterator[Claim]:
    claims = _leading_text(answer)
    if (
        claims
        and not _TURNS_AWAY.search(answer.lower, claims[0].end)
        and _named(answer.lower[claims[0].end :], answer) <= {answer.options.text(claims[0].labels[0])}
    ):
        yield claims[0]
    elif (claim := stated(answer.place(0))) and _ends_at(answer, claim):
        yield claim
    elif not MENTION.search(answer.text) and (concluded := _concluded(_SENTENCES.split(answer.text)[-1], answer)):
        yield concluded
    else:
        yield from _concluded_verdict(answer)


def _concluded_verdict(answer: Answer) -> list[Claim]:
    """`It was invented later, so no, he had none.`"""
    if not VERDICTS.issuperset(answer.options.texts):
        return []
    found = [each for each in _HENCE_VERDICT.finditer(answer.lower) if answer.options.having(each[1])]
    one = len({each[1] for each in found}) == 1 and not _TURNS_AWAY.search(answer.lower, found[-1].end())
    return [Claim("option-text", answer.options.having(found[-1][1]), *found[-1].span(1))] if one else []


_WHY = re.compile(r",? (?:because|since|as|due to|for|in)\b")


def _leading_text(answer: Answer) -> list[Claim]:
    """The choice that the text begins with, and goes on from: `Yes, because …`, `Paris - it lies on …`."""
    said = answer.place(0).said(0)
    labels, length = answer.options.beginning(said)
    behind = said[length:]
    verdict = VERDICTS.issuperset(answer.options.texts)
    goes_on = behind.startswith((",", ".", "!", ":", " - ") if verdict else (".", "!", " - ")) or _WHY.match(behind)
    answered = goes_on and not BEGINS_TO_THINK.match(behind)
    numbers = said[:length].isdigit() and behind.startswith(".")  # "1. …" begins a list
    return [Claim("option-text", labels, 0, length)] if labels and answered and not numbers else []
