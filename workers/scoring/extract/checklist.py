"""The rule for answers that list the choices and tick one, or call one right."""

from __future__ import annotations

import re
from collections.abc import Iterator

from workers.scoring.extract.answer import Answer
from workers.scoring.extract.normalize import folded
from workers.scoring.extract.options import Options
from workers.scoring.extract.targets import BARE_LABEL, Claim

__all__ = ["checked_choice"]

_TICK = re.compile(r"[✓✔✅☑]\ufe0f?|\[x\]")
_CROSS = re.compile(r"[✗✘❌✕✖]\ufe0f?")
#: Behind a label, with its choice or without: the choice is called right, or wrong.
_THIS = r"(?:(?:this|the)(?: statement| option| choice| one)? is |it's |it is |is )?"
_NOUN = r"(?: answer| choice| option)?"
_WHY = r"\s(?:because|since)\b"
_RIGHT = re.compile(rf"{_THIS}(?:the )?(?:correct|right|true){_NOUN}(?=[.!:;)\]*]|\s[-(]|\s?$|{_WHY})|yes!?\s?$")
_WRONG = re.compile(
    rf"{_THIS}(?:incorrect|wrong|false|not (?:correct|right|true))(?=[.!:,;)\]*]|\s[-(]|\s?$|{_WHY})|no\s?$"
)
#: What is asked for may be the wrong one.
_EXCEPTION = re.compile(r"\b(?:except|exception|not true|is not|incorrect one|false statement|asked for)\b")
_EMPTY = re.compile(r"\[ \]")
_CALLED = re.compile(
    r"(?:^|\n)[^\n]{1,200}\b(?:incorrect|wrong|false|no|not (?:correct|right|true))\b"
    rf"|\b(?:correct|right){_NOUN}[)\]]?\s?(?:\n|$)"
)
#: In the head of a table's column: "yes" says there what is wrong.
_DENIED = re.compile(r"(?<!/)(?<!/ )(?<!or )\b(?:incorrect|wrong|false|not|except\w*)\b")
_LABEL = re.compile(r"[(\[]?([a-z])(?:[)\].:]|\s?\||$)")


def checked_choice(answer: Answer) -> Iterator[Claim]:
    """`❌ A) Berlin`, `✅ B) Paris`, a line for every choice: the only one that is ticked.

    Who is asked which statement is false may tick the true ones. With three choices or more there are several of them,
    and the only one that is crossed out is read where the question is known to ask for it; of two the tick says nothing
    where the other one is crossed out.
    """
    if not _TICK.search(answer.lower) and not _CALLED.search(answer.lower):
        return
    ticked: dict[str, bool] = {}
    crossed: list[str] = []
    end = at = 0
    for line in answer.lower.split("\n"):
        label = _listed(line, answer.options)
        tick, cross = _judged(line, label, answer.options)
        if label and label not in ticked:
            ticked[label] = tick
            crossed += [label] * cross
            end = at + len(line)
        if (tick or cross) and (not label or end != at + len(line) or tick == cross):
            return
        if "|" in line and not label and _DENIED.search(line):
            return
        at += len(line) + 1
    chosen = [label for label, tick in ticked.items() if tick]
    if answer.options.sought and len(crossed) == 1 and len(chosen) == len(ticked) - 1 > 1:
        chosen = crossed
    elif not _TICK.search(answer.lower) and _EXCEPTION.search(answer.lower):
        return
    both_judged = bool(crossed) and len(answer.options.labels) == 2
    complete = len(ticked) == len(answer.options.labels)
    if complete and len(chosen) == 1 and not both_judged and not _speaks_of_another(answer, end, chosen[0]):
        yield Claim("checked-choice", (chosen[0],), 0, end)


def _judged(line: str, label: str, options: Options) -> tuple[bool, bool]:
    """Whether the line of `label` ticks it or calls it right, and whether it crosses it out or calls it wrong."""
    tick, cross = bool(_TICK.search(line)), bool(_CROSS.search(line))
    if tick or cross or not label:
        return tick, cross
    said, *cells = [cell.strip() for cell in line.strip(" -*•>#|").split("|")]
    if not cells and (found := _LABEL.match(said)):
        behind = said[found.end() :]
        cells = [behind[options.follows(behind, label) :].lstrip(" .,-:*([<←")]
    return any(map(_RIGHT.match, cells)), any(map(_WRONG.match, cells))


def _listed(line: str, options: Options) -> str:
    """The choice that the line of a list is about, by its label or as its only text; empty for any other line."""
    said = line
    for mark in (_TICK, _CROSS, _EMPTY):
        said = mark.sub("", said)
    said = said.strip(" -*•>#|")
    if (found := _LABEL.match(said)) and (label := found[1].upper()) in options.labels:
        return "" if options.contradicts(said[found.end() :], label) else label
    named = options.having(folded(said.partition("|")[0]))
    return named[0] if len(named) == 1 else ""


def _speaks_of_another(answer: Answer, end: int, label: str) -> bool:
    """Whether the text behind the list names another choice than `label`."""
    own = answer.options.text(label)
    texts = {text for _, _, text in answer.options.mentioned(answer.place(0).said(end))}
    return bool(texts - {own} or set(BARE_LABEL.findall(answer.text, end)) - {label})
