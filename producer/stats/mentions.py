"""Verbatim search for a text in passages."""

from __future__ import annotations

import re
from collections.abc import Sequence

__all__ = ["mentions"]

#: Letters of scripts without spaces between words, in which word boundaries cannot be determined; Korean has spaces,
#: but attaches particles to words. Thai to Burmese, Khmer, Chinese, Japanese, Korean.
_UNSPACED = re.compile(
    r"[\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u3040-\u9fff\uac00-\ud7af\U00020000-\U0003ffff]"
)
#: As in 4.5 and 10,000.
_WITHIN_A_NUMBER = re.compile(r"(?<=\d)[.,](?=\d)")


def mentions(texts: Sequence[str], passages: Sequence[str]) -> list[bool]:
    """Return for each of `texts` whether it occurs in one of `passages`.

    Case, the amount of white space and a text's final full stop are ignored; matches must begin and end at word
    boundaries, except in scripts without spaces between words, and not within a number (4 is not in 4.5 or 4,000).
    Paraphrases are not found.
    """
    plain = [_plain(each) for each in passages]
    # "iron ." is a text from which a tokeniser separated its full stop.
    wanted = [_plain(each).rstrip(".。").rstrip() for each in texts]
    return [any(_stands_in(text, each) for each in plain) for text in wanted]


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())


def _stands_in(text: str, passage: str) -> bool:
    # A plain search, to avoid compiling a regular expression for each choice of each question.
    at = passage.find(text) if text else -1
    while at >= 0:
        end = at + len(text)
        if not _is_inside(passage, at) and not _is_inside(passage, end):
            return True
        at = passage.find(text, at + 1)
    return False


def _is_inside(text: str, at: int) -> bool:
    return _inside_a_word(text, at) or _inside_a_number(text, at)


def _inside_a_word(text: str, at: int) -> bool:
    """Whether position `at` is between two characters of the same word."""
    around = text[at - 1 : at + 1] if 0 < at < len(text) else ""
    return around.isalnum() and _UNSPACED.search(around) is None


def _inside_a_number(text: str, at: int) -> bool:
    """Whether position `at` is beside the separator of a number."""
    return _WITHIN_A_NUMBER.search(text, max(at - 1, 0), at + 2) is not None
