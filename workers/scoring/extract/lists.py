"""Whether a label heads a list of the choices, which is no answer: an echo of the question, or an analysis."""

from __future__ import annotations

import re
from typing import NamedTuple

from workers.scoring.extract.options import Options

__all__ = ["DENIAL", "heads_list"]

#: How far the next label is looked for.
_REACH = 1500

#: `B)`, `(B)`, `B:`, and, where a sentence or line begins, `B.`; not behind words that only mention it.
_NEXT_MARK = re.compile(
    r"(?<!option)(?<!choice)(?<!answer)(?<! not)(?<! than)(?<! with)(?<! and)(?<! or)(?<! as)"
    r"(?:(?:^|\s)[(\[\"'*•-]{0,3} ?([A-Z])[\"']?[):\]]|(?:^|\n|[.!?;:,)]\s)[(\[\"'*•-]{0,3} ?([A-Z])[\"']?\.)"
)
#: Right behind a choice: `A. Berlin B. Madrid`.
_NEXT_HERE = re.compile(r"\s[(\[]?([A-Z])[.):\]]{0,2}\s")
_NEXT_ALONE = re.compile(r"\n[(\[]?([A-Z])[)\].:]{0,2}\n")
_NEXT_LINE = re.compile(r"[^\n]{0,300}\n{1,2}[(\[\"'*•-]{0,3} ?([A-Z])(?![\w']| [a-z]|, [A-Z](?![\w']))")
#: Behind a choice's own text: its sentence or line ends, or says why.
_CLOSED = re.compile(r"[)\]\"'*]{0,3}(?:\s?$|\s?\n|[.!;,](?!\w)|\s(?:because|since|as)\b)")
#: The label has a paragraph for itself, and the next one is no mark.
_OWN_PARAGRAPH = re.compile(r"[)\]\"'*.]{0,3}\s?\n\n[^\w\n]{0,3}\w{2}")
#: The first choice is called wrong.
_WRONG = r"wrong|incorrect|false|eliminat\w*|ruled out|unlikely|cannot"
_DENIED_ITSELF = re.compile(rf"\b(?:{_WRONG}|(?:is|are|was|does|did|can) ?(?:not|n't))\b|[✗✘❌✕]")
#: A choice is called wrong, or right elsewhere only.
DENIAL = re.compile(rf"\b(?:{_WRONG}|not|never|neither|nor|would|\w{{2,8}}n't)\b|[✗✘❌✕]")
#: "Here's why the other options are wrong:"
_OTHERS_DENIED = re.compile(
    r"\b(?:others?|remaining)\b[^.\n]{0,60}\b(?:wrong|incorrect|false|not|unlikely|\w{2,8}n't)\b"
)
_RIGHT = re.compile(r"(?<!\w)(?:correct|right|answer|best|true|fits)(?!\w)|[✓✔✅☑]")
_SIGNS = " .,:;()[]{}\"'*\n-•"


class _Mark(NamedTuple):
    """A label where a list may go on."""

    label: str
    start: int
    end: int


def _next_mark(behind: str, label: str) -> _Mark | None:
    """The next label with a mark, or the next line's, if it is the one after `label`."""
    found = (_NEXT_MARK.search(behind), _NEXT_LINE.match(behind), _NEXT_ALONE.search(behind))
    marks = (_Mark(each[each.lastindex or 0], *each.span(each.lastindex or 0)) for each in found if each is not None)
    return next((mark for mark in marks if ord(mark.label) == ord(label) + 1), None)


def heads_list(text: str, own_end: int, label: str, options: Options, *, announced: bool) -> bool:
    """Whether `label`, which ends with its own text at `own_end`, heads a list of the choices.

    It does not where it is the answer and the text goes on with what is wrong about the other choices:
    `The answer is (A) Berlin. (B) Madrid is wrong.` Where the answer was not `announced` right before the label, they
    must be called wrong.
    """
    behind = text[own_end : own_end + _REACH]
    if _is_beside_another(behind, label, options) or _goes_on(behind, label, options):
        return True
    mark = _next_mark(behind, label)
    if mark is None:
        return False
    rest = behind[mark.end :]
    own, others_denied = _OTHERS_DENIED.subn("", behind[: mark.start].lower())
    further = _next_mark(rest, mark.label)
    entry = rest[: further.start] if further else rest
    if not own.strip(_SIGNS) and _is_bare(entry, mark.label, options, is_cut=further is None):
        return True
    others = [entry.lower(), *([rest[further.end :].lower()] if further else [])]
    is_open = not _CLOSED.match(own) or _DENIED_ITSELF.search(own)
    if is_open or any(_RIGHT.search(other) and not DENIAL.search(other) for other in others):
        return True
    below = entry[options.follows(entry.lower(), mark.label) :].lstrip(_SIGNS.replace("\n", ""))
    explained = _OWN_PARAGRAPH.match(own) and not below.startswith("\n")
    return not (announced or explained or others_denied or DENIAL.search(others[0]))


def _goes_on(behind: str, label: str, options: Options) -> bool:
    """Whether the next label and its text stand right `behind` the text of `label`, without a stop between."""
    found = _NEXT_HERE.match(behind)
    if found is None or found[1] not in options.labels or ord(found[1]) != ord(label) + 1:
        return False
    return options.follows(behind[found.end(1) :].lower(), found[1]) > 0


def _is_beside_another(behind: str, label: str, options: Options) -> bool:
    """Whether the next line is another label with its own text, and nothing else: `B. Madrid`, `D. Rome`."""
    found = _NEXT_LINE.match(behind)
    if not found or found[1] not in options.labels or found[1] == label or not _CLOSED.match(behind):
        return False
    entry = behind[found.end(1) :]
    return _is_bare(entry, found[1], options, is_cut="\n" not in entry.strip())


def _is_bare(entry: str, label: str, options: Options, *, is_cut: bool) -> bool:
    """Whether `entry` is the text of `label` and nothing else, or, where the text `is_cut` there, a beginning of it."""
    said = entry.lower().replace('"', "")
    if is_cut and options.text(label).startswith(said.strip(_SIGNS)):
        return True
    length = options.follows(said, label)
    line, _, below = said[length:].partition("\n")
    is_last = label == options.labels[-1]
    return bool(length) and not line.strip(_SIGNS) and (is_last or not (is_cut or below.strip(_SIGNS)))
