"""Extracting choices from a text: `A) …`, `(B) …`, `3. …`, one per line or in running text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from contract.question import MAX_CHOICES, MIN_CHOICES

__all__ = ["Inline", "Mark", "behind_each", "mark_of", "split_choices", "split_list"]

#: A mark: a letter or number, then its closing character. A dot or colon must be followed by white space, which
#: excludes decimals.
_MARK = r"[(\[]?(?:(?P<letter>[A-Za-z])|(?P<digits>\d{1,2}))(?P<close>[)\]]|[.:](?=\s)|[．：、）])[ \t]*"
_AT_LINE_START = re.compile(rf"^[ \t]*{_MARK}", re.MULTILINE)
_IN_LINE = re.compile(rf"(?:^|(?<=\s)){_MARK}", re.MULTILINE)
#: A mark in a tokenised list, with blanks between words and punctuation (MathQA): `a ) 38 , b ) 27.5`.
_SPACED = re.compile(r"(?:^|,)\s*([a-zA-Z])\s+\)\s*")
_BULLETS = re.compile(r"\n\s*(?:Options|Choices|Answer choices):[ \t]*\n(?=[ \t]*[-*•] )", re.IGNORECASE)
_BULLET = re.compile(r"^[ \t]*[-*•][ \t]+(.+)$", re.MULTILINE)
_HEADING = re.compile(r"\n\s*(?:Options|Choices|Answer choices):?\s*$", re.IGNORECASE)
#: Lead-ins to the answer that a prompt may end with, by language.
_LEADS = (
    r"(?:(?:the|your) )?(?:(?:correct|right|best|final) )?(?:answer|option|choice)(?: is)?",
    r"(?:正[确確])?(?:答案?|回答)[是为為]?",
    r"(?:die )?(?:(?:richtige|korrekte) )?(?:antwort|lösung)(?: (?:ist|lautet))?",
    r"(?:la )?(?:bonne )?réponse(?: correcte)?(?: est)?",
    r"(?:la )?respuesta(?: correcta)?(?: es)?",
    r"(?:la )?risposta(?: (?:corretta|esatta|giusta))?(?: è)?",
    r"(?:a )?resposta(?: (?:correta|certa))?(?: é)?",
    r"(?:het )?(?:juiste )?antwoord(?: is)?",
    r"(?:(?:poprawna|prawidłowa) )?odpowiedź(?: to)?",
    r"(?:правильный )?ответ",
)
#: A line that consists of a lead-in only. "The answer is (" needs no colon.
_LEAD_IN = re.compile(
    rf"(?:(?:{'|'.join(_LEADS)})\s*[:：]|the (?:(?:correct|right|best|final) )?answer is)\s*[(\[（]?", re.IGNORECASE
)


class Inline(NamedTuple):
    """A question text separated into stem and choices."""

    #: The text before the first choice.
    stem: str
    #: The label of each choice in the text: an upper-case letter, or digits.
    labels: tuple[str, ...]
    choices: tuple[str, ...]


def split_choices(text: str) -> Inline | None:
    """Split a text into the part before the choices and the choices; None if it contains none.

    The choices are the last sequence of marks that counts up from A or 1; an earlier list of statements belongs to
    the stem.
    """
    return _marked(text, _AT_LINE_START) or _marked(text, _IN_LINE) or _bulleted(text)


def split_list(text: str) -> Inline | None:
    """Split a text that consists of choices only: `a ) 38 , b ) 27.5 , c ) none of these`; None for any other text."""
    marks: list[re.Match[str]] = []
    for mark in _SPACED.finditer(text):
        if ord(mark[1].upper()) - ord("A") == len(marks):
            marks.append(mark)
    if not MIN_CHOICES <= len(marks) <= MAX_CHOICES or text[: marks[0].start()].strip():
        return None
    return Inline("", tuple(mark[1].upper() for mark in marks), behind_each(marks, text))


#: What joins the labels in a choice that names others. No single letters: choices may be "x" and "y".
_JOINS = re.compile(r"[,;/&+]|,?\s*(?:and|or|nor|und|oder|et|ou)", re.IGNORECASE)


#: What may separate choices on one line, in front of the next one's mark.
_SEPARATOR = re.compile(r"(?:\s*[;,|；，、]|\s+[/•-])$")


def behind_each(marks: Sequence[re.Match[str]], text: str) -> tuple[str, ...]:
    """Return the text after each of `marks`, up to the next one, without what separates them: `A. red; B. blue`."""
    ends = [*(each.start() for each in marks[1:]), len(text)]
    *others, last = (text[mark.end() : end].strip() for mark, end in zip(marks, ends, strict=True))
    found = [_SEPARATOR.search(each) for each in others]
    separators = {each[0].strip() if each else "" for each in found}
    if len(separators) == 1 and separators != {""} and not _SEPARATOR.search(last):
        others = [_SEPARATOR.sub("", each) for each in others]
    return (*others, last)


class Mark(NamedTuple):
    """The mark that a choice begins with: "(B) red" has rank 1, label "B" and rest "red"."""

    rank: int
    label: str
    rest: str


def mark_of(choice: str) -> Mark | None:
    """Return the mark that a choice begins with; None if it has none, or consists of nothing else."""
    text = choice.lstrip()
    found = _AT_LINE_START.match(text)
    rest = text[found.end() :].strip() if found else ""
    return Mark(_rank(found), (found["letter"] or found["digits"]).upper(), rest) if found and rest else None


def _marked(text: str, pattern: re.Pattern[str]) -> Inline | None:
    marks = list(pattern.finditer(text))

    def leads_and_place(start: int) -> tuple[bool, int]:
        # "(A) iron (B) 1) or 2)": what directly follows a mark is in that one's choice, unless "part (a) (A) 3 (B) 4".
        return start == 0 or marks[start - 1].end() < marks[start].start(), start

    starts = (at for at, mark in enumerate(marks) if _rank(mark) == 0)
    for start in sorted(starts, key=leads_and_place, reverse=True):
        if (run := _run(marks, start)) and (found := _cut(text, run)):
            return found
    return None


def _run(marks: list[re.Match[str]], start: int) -> list[re.Match[str]]:
    """Return the marks that continue the count from `marks[start]` in the same style; empty if too few or too many."""
    run = [marks[start]]
    for mark in marks[start + 1 :]:
        if _kind(mark) == _kind(run[0]) and _rank(mark) == len(run):
            run.append(mark)
    before_their_turn = (
        _kind(mark) == _kind(run[0]) and _rank(mark) == len(run) for mark in marks[start : marks.index(run[-1])]
    )
    if any(before_their_turn):  # "(1) … (3) … (2) … (4) …", of choices in two columns
        return []
    return run if MIN_CHOICES <= len(run) <= MAX_CHOICES else []


def _kind(mark: re.Match[str]) -> tuple[bool, bool, str]:
    letter = mark["letter"]
    return letter is None, bool(letter and letter.islower()), mark["close"]


def _rank(mark: re.Match[str]) -> int:
    return int(mark["digits"]) - 1 if mark["digits"] else ord(mark["letter"].upper()) - ord("A")


def _cut(text: str, run: list[re.Match[str]]) -> Inline | None:
    choices = behind_each(run, text)
    stem = _HEADING.sub("", text[: run[0].start()].rstrip()).strip()
    # "(A) … (B) … (C) Both (A) and (B) (D) …": a choice that is only "and" is part of one that names others.
    if not stem or not all(choices) or any(map(_JOINS.fullmatch, choices)):
        return None
    labels = tuple((each["letter"] or each["digits"]).upper() for each in run)
    return Inline(stem, labels, _without_lead_in(choices))


def _without_lead_in(choices: tuple[str, ...]) -> tuple[str, ...]:
    """Return the choices, with the prompt's closing line "Answer:" removed from the last one."""
    *others, last = choices
    # If other choices end with such a line too, it is part of their text.
    if not _ends_in_lead_in(last) or any(map(_ends_in_lead_in, others)):
        return choices
    return (*others, last.rpartition("\n")[0].rstrip())


def _ends_in_lead_in(choice: str) -> bool:
    """Whether the last line of several is a lead-in."""
    text, _, line = choice.rpartition("\n")
    return bool(text) and bool(_LEAD_IN.fullmatch(line.strip()))


def _bulleted(text: str) -> Inline | None:
    heading = _BULLETS.search(text)
    if heading is None:
        return None
    choices = tuple(each.strip() for each in _BULLET.findall(text, heading.end()))
    labels = tuple(str(at) for at in range(1, len(choices) + 1))
    return Inline(text[: heading.start()].strip(), labels, choices) if len(choices) >= MIN_CHOICES else None
