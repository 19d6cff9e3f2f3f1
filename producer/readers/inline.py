"""Choices that stand inside a text: `A) …`, `(B) …`, `3. …`, one per line or one after the other."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from contract.question import MAX_CHOICES, MIN_CHOICES

__all__ = ["Inline", "Mark", "behind_each", "mark_of", "split_choices", "split_list"]

#: A mark: a letter or a number, then what closes it. A dot or a colon needs white space after it, as in no decimal.
_MARK = r"[(\[]?(?:(?P<letter>[A-Za-z])|(?P<digits>\d{1,2}))(?P<close>[)\]]|[.:](?=\s)|[．：、）])[ \t]*"
_AT_LINE_START = re.compile(rf"^[ \t]*{_MARK}", re.MULTILINE)
_IN_LINE = re.compile(rf"(?:^|(?<=\s)){_MARK}", re.MULTILINE)
#: A mark of a list in one text, its words and signs parted by blanks (MathQA): `a ) 38 , b ) 27.5`.
_SPACED = re.compile(r"(?:^|,)\s*([a-zA-Z])\s+\)\s*")
_BULLETS = re.compile(r"\n\s*(?:Options|Choices|Answer choices):[ \t]*\n(?=[ \t]*[-*•] )", re.IGNORECASE)
_BULLET = re.compile(r"^[ \t]*[-*•][ \t]+(.+)$", re.MULTILINE)
_HEADING = re.compile(r"\n\s*(?:Options|Choices|Answer choices):?\s*$", re.IGNORECASE)
#: What a prompt may end with, language by language.
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
#: A line with nothing else in it. "The answer is (" needs no colon.
_LEAD_IN = re.compile(
    rf"(?:(?:{'|'.join(_LEADS)})\s*[:：]|the (?:(?:correct|right|best|final) )?answer is)\s*[(\[（]?", re.IGNORECASE
)


class Inline(NamedTuple):
    """A text taken apart."""

    #: What stands before the first choice.
    stem: str
    #: What the text calls each choice: letters in capitals, or digits.
    labels: tuple[str, ...]
    choices: tuple[str, ...]


def split_choices(text: str) -> Inline | None:
    """The text before its choices, and the choices; None where it holds none.

    The choices are the last marks that count up from A or 1: a list of statements before them belongs to the stem.
    """
    return _marked(text, _AT_LINE_START) or _marked(text, _IN_LINE) or _bulleted(text)


def split_list(text: str) -> Inline | None:
    """The choices of a text that is nothing but their list: `a ) 38 , b ) 27.5 , c ) none of these`; else None."""
    marks: list[re.Match[str]] = []
    for mark in _SPACED.finditer(text):
        if ord(mark[1].upper()) - ord("A") == len(marks):
            marks.append(mark)
    if not MIN_CHOICES <= len(marks) <= MAX_CHOICES or text[: marks[0].start()].strip():
        return None
    return Inline("", tuple(mark[1].upper() for mark in marks), behind_each(marks, text))


#: What joins the labels in a choice that names others. No single letters: choices may be "x" and "y".
_JOINS = re.compile(r"[,;/&+]|,?\s*(?:and|or|nor|und|oder|et|ou)", re.IGNORECASE)


def behind_each(marks: Sequence[re.Match[str]], text: str) -> tuple[str, ...]:
    """What stands in `text` behind each of `marks`, up to the next one."""
    ends = [*(each.start() for each in marks[1:]), len(text)]
    return tuple(text[mark.end() : end].strip() for mark, end in zip(marks, ends, strict=True))


class Mark(NamedTuple):
    """What a choice calls itself: "(B) red" is the second, "B", and "red" without it."""

    rank: int
    label: str
    rest: str


def mark_of(choice: str) -> Mark | None:
    """The mark that a choice begins with; None where it has none, or is nothing else."""
    text = choice.lstrip()
    found = _AT_LINE_START.match(text)
    rest = text[found.end() :].strip() if found else ""
    return Mark(_rank(found), (found["letter"] or found["digits"]).upper(), rest) if found and rest else None


def _marked(text: str, pattern: re.Pattern[str]) -> Inline | None:
    marks = list(pattern.finditer(text))
    for start in range(len(marks) - 1, -1, -1):
        if _rank(marks[start]) == 0 and (run := _run(marks, start)) and (found := _cut(text, run)):
            return found
    return None


def _run(marks: list[re.Match[str]], start: int) -> list[re.Match[str]]:
    """The marks that count on from `marks[start]` in its own way; empty if they are too few or do not reach the end."""
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
    """The choices, the last without the line "Answer:" that the prompt ends with."""
    *others, last = choices
    # What other choices end with too is their own text.
    if not _ends_in_lead_in(last) or any(map(_ends_in_lead_in, others)):
        return choices
    return (*others, last.rpartition("\n")[0].rstrip())


def _ends_in_lead_in(choice: str) -> bool:
    """Whether a lead-in is the last of its lines, and not the only one."""
    text, _, line = choice.rpartition("\n")
    return bool(text) and bool(_LEAD_IN.fullmatch(line.strip()))


def _bulleted(text: str) -> Inline | None:
    heading = _BULLETS.search(text)
    if heading is None:
        return None
    choices = tuple(each.strip() for each in _BULLET.findall(text, heading.end()))
    labels = tuple(str(at) for at in range(1, len(choices) + 1))
    return Inline(text[: heading.start()].strip(), labels, choices) if len(choices) >= MIN_CHOICES else None
