"""Extracting choices from a text: `A) …`, `(B) …`, `3. …`, one per line or in running text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from contract.question import LABELS, MAX_CHOICES, MIN_CHOICES
from producer.readers.record import FieldTrouble, shown_value

__all__ = ["Inline", "Mark", "behind_each", "joins", "mark_of", "split_choices", "split_list"]

#: A mark: a letter or number, then its closing character. A dot or colon must be followed by white space, which
#: excludes decimals.
_MARK = r"(?P<open>[(\[])?(?:(?P<letter>[A-Za-z])|(?P<digits>\d{1,2}))(?P<close>[)\]]|[.:](?=\s)|[．：、）])[ \t]*"
_AT_LINE_START = re.compile(rf"^[ \t]*{_MARK}", re.MULTILINE)
_IN_LINE = re.compile(rf"(?:^|(?<=\s)){_MARK}", re.MULTILINE)
#: A mark without white space behind its dot, as in Chinese: `A.长江`; but not initials, `A.N. Whitehead`.
_UNSPACED = re.compile(r"[ \t]*(?P<letter>[A-Za-z])(?P<close>\.)(?![A-Za-z]\.)(?P<digits>)")
#: A mark in a tokenised list, with blanks between words and punctuation (MathQA): `a ) 38 , b ) 27.5`.
_TOKENISED = re.compile(r"(?:^|,)\s*([a-zA-Z])\s+\)\s*")
_BULLETS = re.compile(r"\n\s*(?:Options|Choices|Answer choices):[ \t]*\n(?=[ \t]*[-*•] )", re.IGNORECASE)
_BULLET = re.compile(r"^[ \t]*[-*•][ \t]+(?=.)", re.MULTILINE)
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


#: After the last mark of a list, one that skips fewer marks than this may still belong to it.
_MOST_MISSING = 3


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
    the stem. Raises FieldTrouble if the text could be cut otherwise as well.
    """
    return _marked(text, _AT_LINE_START) or _marked(text, _IN_LINE) or _bulleted(text)


def split_list(text: str) -> Inline | None:
    """Split a text that consists of choices only: `a ) 38 , b ) 27.5 , c ) none of these`; None for any other text."""
    marks: list[re.Match[str]] = []
    for mark in _TOKENISED.finditer(text):
        if ord(mark[1].upper()) - ord("A") == len(marks):
            marks.append(mark)
    if not MIN_CHOICES <= len(marks) <= MAX_CHOICES or text[: marks[0].start()].strip():
        return None
    return Inline("", tuple(mark[1].upper() for mark in marks), behind_each(marks, text))


#: What joins the labels in a choice that names others. No single letters: choices may be "x" and "y".
_JOINS = re.compile(r"[,;/&+]|,?\s*(?:and|or|nor|und|oder|et|ou)", re.IGNORECASE)


_JOINED = re.compile(rf"(?:{_JOINS.pattern})\s", re.IGNORECASE)


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
    is_letter_in_bracket: bool


def mark_of(choice: str, *, spaced: bool = True) -> Mark | None:
    """Return the mark that a choice begins with; None if it has none, or consists of nothing else.

    Without `spaced`, only a letter and a dot right before the text are a mark; by itself, such a one proves little.
    """
    text = choice.lstrip()
    found = (_AT_LINE_START if spaced else _UNSPACED).match(text)
    rest = text[found.end() :].strip() if found else ""
    if not found or not rest:
        return None
    label = (found["letter"] or found["digits"]).upper()
    return Mark(_rank(found), label, rest, bool(found["letter"]) and found["close"] in {")", "]"})


def joins(rest: str) -> bool:
    """Whether what stands behind a mark joins it to others: `(a) and (b)`."""
    return _JOINED.match(rest) is not None


class _Cut(NamedTuple):
    """One way to cut a text, and what speaks against it; empty if nothing does."""

    found: Inline
    doubt: str


def _marked(text: str, pattern: re.Pattern[str]) -> Inline | None:
    marks = list(pattern.finditer(text))
    outside = _unbracketed(marks, text)
    ways = [marks] if len(outside) == len(marks) else [marks, outside]
    cuts = [cut for each in ways if (cut := _last_list(text, each))]
    sure = {cut.found for cut in cuts if not cut.doubt}
    if len(sure) == 1:
        return sure.pop()
    if cuts:
        doubt = next((cut.doubt for cut in cuts if cut.doubt), "one of their marks is in brackets")
        message = f"they cannot be told apart: {doubt} in {shown_value(text)}."
        hint = "Put each choice on a line of its own, or all into a list."
        raise FieldTrouble("choices", message, hint, kind="cannot be told apart")
    return None


def _last_list(text: str, marks: list[re.Match[str]]) -> _Cut | None:
    def leads_and_place(start: int) -> tuple[bool, int]:
        # "(A) iron (B) 1) or 2)": what directly follows a mark is in that one's choice, unless "part (a) (A) 3 (B) 4".
        return start == 0 or marks[start - 1].end() < marks[start].start(), start

    starts = (at for at, mark in enumerate(marks) if _rank(mark) == 0)
    for start in sorted(starts, key=leads_and_place, reverse=True):
        if (run := _run(marks, start)) and (found := _cut(text, run)):
            return _Cut(found, _there_twice(run, marks[start:]) or _goes_on(run, marks, text) or _listed_within(found))
    return None


def _unbracketed(marks: Iterable[re.Match[str]], text: str) -> list[re.Match[str]]:
    """Return the marks without those that close a bracket of the text: `B)` in `(see part B)` or `P(A ∪ B)`."""
    found: list[re.Match[str]] = []
    inside, at = False, 0
    for mark in marks:
        _, line_end, between = text[at : mark.start()].rpartition("\n")
        opens, closes = between.rfind("("), between.rfind(")")
        inside = opens > closes or (opens == closes and inside and not line_end)
        if not (inside and mark["close"] == ")" and not mark["open"]):
            found.append(mark)
        at = mark.start()
    return found


def _there_twice(run: Sequence[re.Match[str]], marks: Sequence[re.Match[str]]) -> str:
    """Describe the mark of `run` that another of `marks` could replace: `see B) below B) x`; empty if none could."""
    alike = [mark for mark in marks if _kind(mark) == _kind(run[0])]
    ways = [1] + [0] * (len(run) - 1)
    for mark in alike:
        if 0 < _rank(mark) < len(run):
            ways[_rank(mark)] += ways[_rank(mark) - 1]
    twice = next((mark for mark, count in zip(run, ways, strict=True) if count > 1), run[0])
    # "It is called a: a: histone b: chromatin": the first one ends the stem, or the second one begins a choice.
    stem_ends = _rank(alike[1]) == 0 and alike[1].start() == run[0].end()
    return f"{twice[0].strip()!r} is there twice" if ways[-1] > 1 or stem_ends else ""


def _goes_on(run: Sequence[re.Match[str]], marks: Iterable[re.Match[str]], text: str) -> str:
    """Describe a mark in the last choice after which the list goes on: `B) blue D) grey`, `\nc. green`; else empty."""
    last = run[-1]
    numbered = bool(last["digits"])
    next_label = str(len(run) + 1) if numbered else "".join(LABELS[len(run) : len(run) + 1])
    mistyped = re.compile(rf"^[ \t]*[(\[]?{next_label}\s?[)\].:．：、）]", re.MULTILINE | re.IGNORECASE)
    further = [mistyped.search(text, last.end())] if next_label else []
    further += [
        mark
        for mark in marks
        # "D) E. coli": without the second mark, the choice would be empty
        if mark.start() > last.end()
        and bool(mark["digits"]) == numbered
        and len(run) <= _rank(mark) < len(run) + _MOST_MISSING
    ]
    found = next(filter(None, further), None)
    return f"{found[0].strip()!r} comes after {last[0].strip()!r}" if found else ""


def _listed_within(found: Inline) -> str:
    """Describe what shows that the choices are statements: `1. … 2. … A) true B) false`; empty if nothing does."""
    numbered = found.labels[0].isdigit()
    *others, last = (_has_list(each, numbers=numbered) for each in found.choices)
    return f"choice {found.labels[-1]} contains a list of its own" if last and not any(others) else ""


def _has_list(choice: str, *, numbers: bool) -> bool:
    """Whether there is a list in a choice. `numbers`: also a numbered one in its first line, `1) wash 2) dry`."""
    first_line = -1 if numbers else len(choice.partition("\n")[0])
    marks = [mark for mark in _IN_LINE.finditer(choice) if mark["letter"] or mark.start() > first_line]
    return any(_cut(choice, run) for at, mark in enumerate(marks) if _rank(mark) == 0 and (run := _run(marks, at)))


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
    marks = list(_BULLET.finditer(text, heading.end()))
    if len(marks) < MIN_CHOICES:
        return None
    others = [text[mark.end() : following.start()].strip() for mark, following in pairwise(marks)]
    last = text[marks[-1].end() :].partition("\n")[0].strip()  # only its line: the prompt may go on below
    choices = (*others, last)
    labels = tuple(str(at) for at in range(1, len(choices) + 1))
    return Inline(text[: heading.start()].strip(), labels, choices)
