"""What stands at one place of an answer: a label, a number or the text of a choice."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

from workers.scoring.extract.cues import FILLERS
from workers.scoring.extract.lists import heads_list
from workers.scoring.extract.normalize import folded
from workers.scoring.extract.options import Options
from workers.scoring.extract.patterns import compiled, past
from workers.scoring.extract.words import DENIED_AFTER, ENDS, GOES_ON, OR, RESUMES, VOID

__all__ = ["BARE_LABEL", "Claim", "Place", "read_alike", "read_label", "read_number", "read_target"]

#: How far a choice, or what is said of it, is looked for.
_REACH = 1500

#: A letter that is no part of a word, a name (`C++`, `B12`, `B-cells`) or a formula; Turkish adds its verb: `C'dir`.
_LABEL = compiled(r"""
    (?<![A-Za-z\d\u00aa-\u058f°$€+#&@/\\])
    [(\[{<【\"']{0,3}\s?(?P<label>[A-Za-z])(?P<close>(?:\s?[)\]}】\"']{1,3})?)
    (?![^\W\d_\u0590-\uffff]|[\d+#°%&@^]|_\w|'(?![dt][ıiuü]r)\w|-\w|[)\]]?\s?=)
""")
#: A capital letter by itself, whatever it stands for.
BARE_LABEL = re.compile(r"(?<![\w'.])[A-Z](?![\w'])")
#: One with its own text right behind a hyphen: `C-Paris`.
_HYPHENATED = re.compile(r"(?<![A-Za-z\d°$€+#&@/\\-])[(\[\"']{0,2}(?P<label>[A-Z])(?P<close>[)\]\"']{0,2})-(?=\w)")
#: What follows "I" in "I and III are true".
_NUMERALS = re.compile(r",?\s(?:(?:and|or|&)\s)?\(?(?:i{2,3}|iv|v)\b")
#: A label in brackets, next to another one.
_BRACKETED = re.compile(r"\s?[(\[](?P<label>[A-Z])[)\]]")
_NUMBER = re.compile(r"[(\[\"']{0,2}#?(?P<number>\d{1,2})(?![A-Za-z\d_\u00aa-\u058f%°^/]|[.,]\d)[)\]\"']{0,2}")
#: Behind digits or a small letter that may head a part of the answer.
_ITEM = re.compile(r"[.:]? ?[^\W_]|[.:] ?[^\s)\]\"'.:]")
_ORDINALS = ["first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth"]
_ORDINAL = re.compile(rf"(?:the )?(?P<ordinal>{'|'.join(_ORDINALS)}) (?:option|choice|answer|one)\b")
_ARTICLE = re.compile(r"[ao] (?=(?:letra|alternativa|opção) |[(\"']?[A-Z](?!\w))")
#: The label given behind a text; without brackets only where it is called one.
_NAMED = compiled(r"""
    (?:,?\s?\(?(?:option|choice|answer|letter) \(?|\s?\((?=[a-z]\)))(?P<label>[a-z])(?![\w'])
""")
#: A word or sign between two labels, which a comma is not: "(C), (A) being in Germany".
_JOINS = re.compile(r"[^\W_]|[&/+]")
#: Behind a label in brackets: it is the answer under a condition only, or the first of several.
_LEFT_OPEN = compiled(r"""
    \s(?:(?:only )?(?:if|unless|when(?! \w{2,15}ed\b)|until|assuming|provided(?! by)|depending)\b
    |or (?:none|neither|both)\b|(?:through|to|nor|plus|minus|versus|vs\.?|then|followed by)\s[(\[][a-z][)\]])
""")
_OF_SEVERAL = re.compile(r"\b(?:between|either|both)\b")
_AFTER_STOP = re.compile(r"\. ?([^\W\d_]\w{0,30})")
#: What stands before a letter that is a label, and no choice that is a letter.
_CALLED = re.compile(r"\b(?:option|choice|letter|opción|opção|opzione|alternativa) [(\[\"']{0,2}$")
_COUNTER = re.compile(r"번|番|号")
_CAPITAL = re.compile(r"(?<!\w)[A-Z](?!\w)")
_ARE = re.compile(r" (?:are|were|aren't|do|don't|all|both)\b")
_ARE_OR_CAN = re.compile(rf"{_ARE.pattern}| (?:can|can't|cannot|could|would|have|fail|fit)\b")
#: A next line that is a letter and nothing else: where it is the next label, they are listed.
_NEXT_ALONE = re.compile(r"[.):]?\n{1,2}[(\[]?([A-Z])[)\].:]?(?=\n|$)")
_IS_JUDGED = re.compile(r" (?:is|was|are|isn't|would|cannot|can't|does|has)\b")


@dataclass(frozen=True, slots=True)
class Claim:
    """An answer given at one place of the text. One label: this one; several: one cannot tell; none: no such choice."""

    rule: str
    labels: tuple[str, ...]
    start: int
    end: int
    #: It may be part of an explanation, and no answer: `So A`, `A is the faster one`.
    weak: bool = False


@dataclass(frozen=True, slots=True)
class Place:
    """A position in an answer: `text` as written, `lower` of the same length, and the question's options.

    `clear` places are announced so clearly that small letters, numbers and texts of choices may stand there.
    """

    text: str
    lower: str
    options: Options
    at: int = 0
    clear: bool = True

    def said(self, at: int) -> str:
        """The lower-case text from `at`, as far as matters, without quotes."""
        return self.lower[at : at + _REACH].replace('"', "")


def _filled(place: Place) -> int:
    """Where the words before an answer end. `a` and `o` are articles only where they are small: `é a C`."""
    at = past(FILLERS, place.lower, place.at)
    return past(FILLERS, place.lower, past(_ARTICLE, place.text, at))


class Label(NamedTuple):
    """A label, or several, and where they end in the text, their own choice included."""

    labels: tuple[str, ...]
    end: int


def read_target(place: Place, rule: str) -> Claim | None:
    """The answer at `place`, words like "option" or "most likely" skipped; None where there is none to read."""
    at = _filled(place)
    label = read_label(place, at)
    if label is not None and len(label.labels) == 1 and _OF_SEVERAL.search(place.lower, place.at, at):
        return None
    if not place.clear:
        below = "\n" in place.text[place.at : at].rstrip(" ")
        if label is None or below:
            return None
        same = read_alike(place, at, label) if label.labels else ()
        return Claim(rule, tuple(sorted({*label.labels, *same})), place.at, label.end)
    said = place.said(at)
    texts, length = place.options.beginning(said)
    if not texts:
        said = place.said(place.at).lstrip(" \n':")
        texts, length = place.options.beginning(said)
    is_label = label is not None and (length == 1 or texts == _reading(place, at, label))
    if texts and not is_label:
        meant = {*texts, *_besides(place.options, said[length:])}
        return Claim("option-text", tuple(sorted(meant)), place.at, at + length)
    if label is not None:
        meant = {*label.labels, *(read_alike(place, at, label) and texts)}
        return Claim(rule, tuple(sorted(meant)), place.at, label.end)
    if VOID.match(place.lower, at):
        return Claim(rule, (), place.at, at)
    return read_number(place, at)


def read_alike(place: Place, at: int, label: Label) -> tuple[str, ...]:
    """The choice that reads like what was read as a `label` at `at`, `B` or `(B)`; none behind `option`."""
    called = _CALLED.search(place.lower, max(0, at - 20), at)
    return () if called else _reading(place, at, label)


def _reading(place: Place, at: int, label: Label) -> tuple[str, ...]:
    """The choice whose whole text is what stands from `at` to the end of `label`."""
    return place.options.having(folded(place.text[at : label.end]))


def _besides(options: Options, behind: str) -> tuple[str, ...]:
    """What is named right behind the text of a choice: a label, be it its own, and others: `Rome, option C`."""
    others: list[str] = []
    if (named := _NAMED.match(behind)) and named["label"].upper() in options.labels:
        others, behind = [named["label"].upper()], behind[named.end() :]
    for _ in options.labels:  # a text in a loop names them for ever
        between = OR.match(behind)
        if between is None:
            break
        behind = behind[between.end() :]
        start, end, text = next(options.mentioned(behind), (1, 1, ""))
        ends = ENDS.match(behind, end) or OR.match(behind, end)
        if start or not ends or DENIED_AFTER.match(behind, end):
            break
        others += options.having(text)
        behind = behind[end:]
    return tuple(others)


def read_label(place: Place, at: int) -> Label | None:
    """The label at `at`: `C`, `(C)`, `C) Paris`, `c.`; several for `A or C`; none, but read, for one of no choice.

    None for a word or name (`A cat`, `C. difficile`), and where the label is denied (`C is wrong`) or asked for (`C?`).
    """
    found = _letter(place, at)
    if found is None:
        return None
    label, end = found["label"].upper(), found.end()
    if found["label"].islower() and _is_item(place, at, found, ord(label) - ord("A") + 1):
        return None
    if label not in place.options.labels:
        return Label((), end) if place.clear and _stands(place, found) else None
    below = _NEXT_ALONE.match(place.text, end)
    if (below and ord(below[1]) == ord(label) + 1) or _judged_together(place, end):
        return None
    said = place.said(found.end("label"))
    if length := place.options.follows(said, label):
        return _before_its_text(place, at, label, found.end("label") + length)
    if others := place.options.contradicts(said, label) or _others(place, end):
        return Label((label, *others), end)
    return Label((label,), end) if _stands(place, found) else None


def _is_item(place: Place, at: int, found: re.Match[str], number: int) -> bool:
    """Whether the small letter or digits `found` at `at`, the `number`-th, head a part of the answer, not a choice.

    They head a line below their cue, `Solution:\\n(a) We use …`, or the next one follows: `Answer: 1. Rest. 2. Eat.`
    """
    end = found.end()
    if not _ITEM.match(place.lower, end) or GOES_ON.match(place.lower, end):
        return False
    own = place.options.labels[number - 1 : number]
    if own and place.options.follows(place.said(end), own):
        return False
    following = re.compile(rf"[.!?;,\n]\s?(?:{number + 1}[.)]|\(?(?:{chr(ord('a') + number)}|ii)\))\s")
    return "\n" in place.lower[place.at : at] or following.search(place.said(end)) is not None


def _letter(place: Place, at: int) -> re.Match[str] | None:
    """The letter at `at`, unless it is denied, asked for, or an article: `It's a triangle`."""
    if not place.options.labelled:
        return None
    found = _LABEL.match(place.text, at) or _hyphenated(place, at)
    if found is None:
        return None
    if found["label"] in "iI" and _NUMERALS.match(place.lower, found.end()):
        return None
    behind, label = found.end("label"), found["label"].upper()
    denied = place.options.denied(place.lower, behind) and not (
        label in place.options.labels and place.options.follows(place.said(behind), label)  # "D) cannot be known"
    )
    asked_for = place.text.startswith("?", found.end())
    is_article = found["label"].islower() and not (place.clear or _bracketed(found))
    return None if denied or asked_for or is_article else found


def _hyphenated(place: Place, at: int) -> re.Match[str] | None:
    """The label at `at`, if a hyphen joins its own text to it."""
    found = _HYPHENATED.match(place.text, at)
    if found is None or found["label"] not in place.options.labels:
        return None
    return found if place.options.follows(place.said(found.end("label")), found["label"]) else None


def _before_its_text(place: Place, at: int, label: str, end: int) -> Label | None:
    """The label at `at`, if the text of its choice, which ends at `end`, is an answer: `C) Paris`."""
    denied = place.options.denied(place.lower, end + (place.lower[end : end + 1] == ","))
    if denied or not (place.clear or _ends_or_goes_on(place, end)):
        return None
    if others := _others(place, end):
        return Label((label, *others), end)
    announced = "\n" not in place.text[place.at : at]
    listed = heads_list(place.text, end, label, place.options, announced=announced)
    return None if listed else Label((label,), end)


def _bracketed(found: re.Match[str]) -> bool:
    return any(sign in ")]}】" for sign in found["close"])


def _judged_together(place: Place, end: int) -> bool:
    """Whether the label that ends at `end` heads several of which something is said: `A, B and D are wrong`."""
    several = 1
    while several < len(place.options.labels) and (found := _further(place, end)):
        several, end = several + 1, found.end()
    return several > 1 and (_ARE if several == 2 else _ARE_OR_CAN).match(place.lower, end) is not None


def _others(place: Place, end: int) -> tuple[str, ...]:
    """All labels after the first one: B and C in `A, B or maybe (C)`, but none in `A, C is wrong`."""
    others: list[str] = []
    for _ in place.options.labels:  # a text in a loop names them for ever
        found = _further(place, end)
        if found is None or _IS_JUDGED.match(place.lower, found.end()):
            break
        label = found["label"].upper()
        own = place.options.follows(place.said(found.end("label")), label)
        joined = found.re is _BRACKETED or (
            (own or _bracketed(found)) and _JOINS.search(place.lower, end, found.start()) is not None
        )
        end = found.end("label") + own if own else found.end()
        if not (joined or ENDS.match(place.lower, end) or OR.match(place.lower, end)):
            break
        others.append(label)
    return tuple(others)


def _further(place: Place, end: int) -> re.Match[str] | None:
    """The label that "and" or "or" joins to the one that ends at `end`, or that stands next to it: `(A) (C)`."""
    if (beside := _BRACKETED.match(place.text, end)) and beside["label"] in place.options.labels:
        return beside if place.text[end - 1 : end] in {")", "]"} else None
    between = OR.match(place.lower, end)
    # In Czech "a" is "and"; in "C (A and B are wrong)" it is a label.
    if between is None or _CAPITAL.search(place.text, end, between.end()):
        return None
    found = _LABEL.match(place.text, between.end()) or _hyphenated(place, between.end())
    if found is None:
        return None
    small = place.text[end - 1 : end] == ")" and _bracketed(found)  # "(a) and (b)", but no article
    return found if (found["label"].upper() if small else found["label"]) in place.options.labels else None


def _stands(place: Place, found: re.Match[str]) -> bool:
    """Whether a letter is a label by what stands around it."""
    letter, end = found["label"], found.end()
    pronoun = letter == "I" and not _bracketed(found) and (not place.clear or place.lower.startswith(",", end))
    if pronoun or _is_name(place, letter, end):
        return False
    if letter.isupper() or _bracketed(found):
        left_open = _LEFT_OPEN.match(place.lower, end) is not None
        return (place.clear and _bracketed(found) and not left_open) or _ends_or_goes_on(place, end)
    before = place.lower[max(0, found.start() - 4) : found.start()].rstrip(" \"'")
    announced = not before or before[-1] in ":=|→-\n"
    sure = announced or letter not in "aeiouy" or place.lower[end : end + 1] in tuple(".,;:!")
    return sure and ENDS.match(place.lower, end) is not None


def _ends_or_goes_on(place: Place, end: int) -> bool:
    return bool(ENDS.match(place.lower, end) or GOES_ON.match(place.lower, end))


def _is_name(place: Place, letter: str, end: int) -> bool:
    """Whether the letter and its full stop are part of a name: `E. coli`, `B. Franklin` where a choice says so."""
    word = _AFTER_STOP.match(place.text, end)
    if word is None:
        return False
    small = word[1][0].islower() and not RESUMES.match(place.lower, word.start(1))
    return small or place.options.abbreviates(letter, word[1].lower())


def read_number(place: Place, at: int) -> Claim | None:
    """A position in words or digits: `the third option`, `3`. Digits only where no choice is a number."""
    if not place.options.labelled:
        return None
    ordinal = _ORDINAL.match(place.lower, at)
    if ordinal is not None:
        number = _ORDINALS.index(ordinal["ordinal"]) + 1
        return _claim_number(place, (number,), ordinal.end())
    found = _NUMBER.match(place.lower, at)
    if found is None or not place.options.numbered:
        return None
    if _is_item(place, at, found, int(found["number"])):
        return None
    numbers, end = [int(found["number"])], found.end()
    for _ in place.options.labels:
        between = OR.match(place.lower, end)
        further = _NUMBER.match(place.lower, between.end()) if between else None
        if further is None:
            break
        numbers.append(int(further["number"]))
        end = further.end()
    return _claim_number(place, tuple(numbers), found.end())


def _claim_number(place: Place, numbers: tuple[int, ...], end: int) -> Claim | None:
    if not all(1 <= number <= len(place.options.labels) for number in numbers):
        return None
    labels = tuple(place.options.labels[number - 1] for number in numbers)
    said = place.said(end)
    others = place.options.contradicts(said, labels[0])
    stands = len(numbers) > 1 or ENDS.match(place.lower, end) or _COUNTER.match(place.lower, end)
    if not (stands or place.options.follows(said, labels[0])) or DENIED_AFTER.match(place.lower, end):
        return None
    return Claim("number", (*labels, *others), place.at, end)
