"""What BM25 takes for a word: the pattern that finds the words of a text, and what keeps it from finding them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import groupby

from contract.index import Words

__all__ = ["WITHOUT_SPACES", "WITH_MARKS", "WITH_SOFT_HYPHENS", "obstacles", "pattern", "prepared"]

#: bm25s's own, which is scikit-learn's.
_SPACED = r"(?u)\b\w\w+\b"
#: Letters of Chinese, Japanese and Korean: a word is often two of them. Korean has spaces, but attaches particles.
_TWO = (
    "\u3005-\u3007\u3041-\u3096\u3099\u309a\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\u3400-\u4dbf"
    "\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
)
#: Letters and vowel signs of Thai, Lao, Burmese and Khmer: two of them are hardly a syllable.
_THREE = "\u0e01-\u0e3a\u0e40-\u0e4e\u0e81-\u0ece\u0edc-\u0edf\u1000-\u103f\u1050-\u109f\u1780-\u17d3\u17d7"
_UNSPACED = re.compile(f"(?P<two>[{_TWO}]+)|[{_THREE}]+")
#: Eight consecutive letters of Thai, Lao, Burmese, Khmer, Japanese or Chinese: certainly more than one word.
_UNPARTED = re.compile("[\u0e01-\u0e5b\u0e81-\u0edf\u1000-\u109f\u1780-\u17dd\u3041-\u30ff\u3400-\u9fff]{8}")
#: Marks that say whether the symbol before them is shown as an emoji: not marks of letters.
_VARIATION_SELECTORS = range(0xFE00, 0xFE10)
_SOFT_HYPHEN = "\u00ad"
#: What keeps BM25 from finding words that are `spaced`, and what to do about it: ends of notes that begin "3 of 12
#: passages with".
WITHOUT_SPACES = (
    "text in a script without spaces between words: BM25 takes everything between two punctuation marks as one word "
    "and rarely finds it. Use --words any, or --kind dense with an encoder for that language."
)
WITH_MARKS = (
    "combining marks, as in Hindi or Bengali, or for accents that are characters of their own: BM25 ends a word at "
    "each of them and rarely finds it. Use --words any, or --kind dense with an encoder for that language."
)
WITH_SOFT_HYPHENS = (
    "soft hyphens (U+00AD), as extracted from PDF: BM25 takes what is on either side of one as words of their own. "
    "Remove them from the texts, or use --words any."
)


def prepared(texts: Iterable[str], words: Words) -> Iterable[str]:
    """Return `texts` as `pattern` is to be applied to them.

    Where there may be no spaces between words, every two or three neighbouring letters are put apart; and letters have
    one spelling.
    """
    if words is Words.SPACED:
        return texts
    return (_UNSPACED.sub(_apart, unicodedata.normalize("NFKC", each).replace(_SOFT_HYPHEN, "")) for each in texts)


def _apart(run: re.Match[str]) -> str:
    letters, length = run[0], 2 if run["two"] else 3
    return f" {' '.join(letters[at : at + length] for at in range(max(1, len(letters) - length + 1)))} "


@cache
def pattern(words: Words) -> str:
    r"""Return the regular expression that finds the words of a text.

    >>> (text,) = prepared(["GPT模型的 2 张 H200"], Words.ANY)
    >>> re.findall(pattern(Words.ANY), text)
    ['GPT', '模型', '型的', '张', 'H200']
    """
    if words is Words.SPACED:
        return _SPACED
    marks = sorted(map(ord, _marks()))
    # As ranges: `re` compares a character with each member of a set beyond U+FFFF in turn.
    runs = ([code for _, code in run] for _, run in groupby(enumerate(marks), lambda each: each[1] - each[0]))
    ranges = "".join(f"{chr(run[0])}-{chr(run[-1])}" for run in runs)
    return f"[\\w{ranges}]{{2,}}|[{_TWO}{_THREE}]"


def obstacles(text: str) -> Iterator[str]:
    """Yield what keeps BM25 from finding the words of `text` if they are `spaced`."""
    if _UNPARTED.search(text):
        yield WITHOUT_SPACES
    elif not _marks().isdisjoint(text):
        yield WITH_MARKS
    if _SOFT_HYPHEN in text:
        yield WITH_SOFT_HYPHENS


@cache
def _marks() -> frozenset[str]:
    """Return the combining marks of letters, which `\\w` does not match."""
    codes = (code for code in range(0x300, 0x20000) if code not in _VARIATION_SELECTORS)
    return frozenset(chr(code) for code in codes if unicodedata.category(chr(code)) in {"Mn", "Mc"})
