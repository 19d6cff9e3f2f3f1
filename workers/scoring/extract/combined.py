"""Choices that combine statements, `I and III only`, in one spelling: models write `Only I & III` and `I, III`.

That spelling is `i_iii`, `i_only` for one alone, and `neitheri_iii`: one word each, so that none is part of another.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache

__all__ = ["combined", "marks_of"]

#: How statements may be marked. Capital letters are not among them: they are labels of choices as well.
_KINDS = (r"\d{1,2}", r"[IVX]{1,4}|[ivx]{1,4}", r"[a-h]")
_OTHER = re.compile(r"(?:none|neither|all|both)(?: of (?:the above|these|them))?", re.IGNORECASE)
_AND = r"(?:and|und|et|y|e|и|ve|और|و)"
#: Where a mark may begin and end: Chinese and Japanese leave no blank around it.
_OPEN, _SHUT = r"(?<![^\W\u3040-\u9fff])", r"(?![^\W\u3040-\u9fff])"
_NOUN = r"(?:(?:statements?|options?|points?|items?|conditions?|assertions?|premises?)\s)?"


def marks_of(choices: Sequence[str]) -> str:
    """Return the expression of the marks that the choices combine; empty if they combine none.

    Each choice must be a combination, or name all or none, and at least one must combine several.
    """
    for kind in _KINDS:
        spelled = [combined(each.strip(" ."), kind) for each in choices]
        whole = re.compile(rf"(?:neither)?(?:{kind})(?:_(?:{kind}))*(?:_only)?", re.IGNORECASE)
        several = sum("_" in each.removesuffix("_only") for each in spelled)
        if several and all(whole.fullmatch(each) or _OTHER.fullmatch(each) for each in spelled):
            return kind
    return ""


def combined(text: str, marks: str, own: Mapping[str, str] | None = None) -> str:
    """Return `text` with its combinations of such `marks` in one spelling, and called right as an answer is.

    With the choices by label, each its `own`, a label in front of a combination is none of its marks: `C, (a) and (c)`.
    """
    several, alone, neither, verdict, mark = _patterns(marks)
    text = neither.sub(r"neither\1_\2", text)
    text = several.sub(lambda found: _joined(mark.findall(found[1]), own), text)
    if own is None or any(each.endswith("_only") for each in own.values()):  # else "only B" is a label
        text = alone.sub(lambda found: f"{found[1] or found[2]}_only", text)
    return verdict.sub(r"\1 is the correct answer", text)


def _joined(marks: Sequence[str], own: Mapping[str, str] | None) -> str:
    label, rest = marks[0], "_".join(marks[1:])
    if (
        own
        and own.get(label.upper()) == rest.lower()
        and (label.lower() in rest.lower().split("_") or not _is_marked(label, own))
    ):
        return f"{label}, {rest}"
    return "_".join(marks)


def _is_marked(label: str, own: Mapping[str, str]) -> bool:
    """Whether one of the choices has `label` as the mark of a statement."""
    return any(label.lower() in each.split("_") for each in own.values())


@cache
def _patterns(marks: str) -> tuple[re.Pattern[str], ...]:
    mark = rf"\(?(?:{marks})\)?"
    between = rf"(?:\s?,\s?(?:{_AND}\s)?|\s(?:{_AND}|&|\+)\s|\s?[&+和与及と]\s?)"
    before = rf"{_OPEN}(?<![.,(])(?:both\s)?(?:only\s)?{_NOUN}(?:both\s)?"
    bare = rf"\(?({marks})\)?"
    return (
        re.compile(rf"{before}({mark}(?:{between}{mark})+)(?:\s(?:only|alone))?{_SHUT}(?!\()(?!\.\d)", re.IGNORECASE),
        re.compile(
            rf"(?<![\w.,(])(?:only\s{_NOUN}{bare}|{_NOUN}{bare}\s(?:only|alone))(?![\w(])(?!\.\d)", re.IGNORECASE
        ),
        re.compile(rf"(?<![\w.,(])neither\s{_NOUN}{bare}\snor\s{_NOUN}{bare}(?![\w(])", re.IGNORECASE),
        re.compile(
            rf"(?<!\w)((?:neither)?(?:{marks})_\w+)\s(?:is|are)\s(?:(?:both|all)\s)?(?:correct|true|right)(?=[\s.!]*\Z)",
            re.IGNORECASE,
        ),
        re.compile(rf"{_OPEN}(?:{marks}){_SHUT}", re.IGNORECASE),
    )
