"""Whether a text stands in another one, word for word."""

from __future__ import annotations

import re
from collections.abc import Sequence

__all__ = ["mentions"]

#: Letters of scripts without spaces between words, where no place is inside of one for sure; Korean has spaces, but
#: puts its particles right behind a word. Thai to Burmese, Khmer, Chinese, Japanese, Korean.
_UNSPACED = re.compile(
    r"[\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u3040-\u9fff\uac00-\ud7af\U00020000-\U0003ffff]"
)


def mentions(texts: Sequence[str], passages: Sequence[str]) -> list[bool]:
    """For each of `texts`, whether it stands in one of `passages`.

    Case, the width of white space and a text's closing full stop make no difference; a text that begins or ends in the
    middle of a word does not stand there, but in scripts that put no spaces between words. Other words for the same
    thing are not found.
    """
    plain = [_plain(each) for each in passages]
    return [any(_stands_in(text, each) for each in plain) for text in (_plain(each).rstrip(".。") for each in texts)]


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())


def _stands_in(text: str, passage: str) -> bool:
    # A search instead of a regular expression: nothing is to be compiled for each choice of each question.
    at = passage.find(text) if text else -1
    while at >= 0:
        end = at + len(text)
        if not _inside_a_word(passage, at) and not _inside_a_word(passage, end):
            return True
        at = passage.find(text, at + 1)
    return False


def _inside_a_word(text: str, at: int) -> bool:
    """Whether a word goes on across position `at`, between two characters of it."""
    around = text[at - 1 : at + 1] if 0 < at < len(text) else ""
    return around.isalnum() and _UNSPACED.search(around) is None
