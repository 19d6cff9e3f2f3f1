"""Cutting documents into passages without a model, so that every kind of index has the same passages."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator

from contract.index import Chunking, StoredPassage
from producer.corpus.document import Document

__all__ = ["cut", "token_count"]

#: A token: a word or a punctuation mark. In English, it corresponds to about 1.3 tokens of a model.
_TOKEN = re.compile(r"\w+|[^\w\s]")
#: An ATX heading and a code fence, as defined by CommonMark: backticks with others after them are code within the line.
_HEADING = re.compile(r" {0,3}#{1,6}(?:[ \t]|$)")
_FENCE = re.compile(r" {0,3}(`{3,}(?=[^`]*$)|~{3,})")


def cut(document: Document, chunking: Chunking) -> Iterator[StoredPassage]:
    """Yield the passages of `document`: itself, or its chunks with the ids `<document>#<number>`, starting at 1.

    An id depends only on the document, so it does not change when others are added.
    """
    whole = chunking.tokens is None and not chunking.by_heading
    for number, text in enumerate(_texts(document.text, chunking), start=1):
        name = document.id if whole else f"{document.id}#{number}"
        yield StoredPassage(name, document.id, document.path, document.question_hash, text)


def token_count(text: str) -> int:
    """Return the number of words and punctuation marks in `text`; a model's tokens are at least as many."""
    return sum(1 for _ in _TOKEN.finditer(text))


def _texts(text: str, chunking: Chunking) -> Iterator[str]:
    sections = _sections(text) if chunking.by_heading else [text]
    for section in sections:
        if chunking.tokens is None:
            yield section
        else:
            yield from _windows(section, chunking.tokens, chunking.overlap)


def _windows(text: str, tokens: int, overlap: int) -> Iterator[str]:
    """Yield stretches of text with `tokens` tokens, each repeating the last `overlap` tokens of the one before."""
    starts: deque[int] = deque()  # of one stretch only: a text may be as long as a whole corpus
    end, fresh = 0, False
    for match in _TOKEN.finditer(text):
        starts.append(match.start())
        end, fresh = match.end(), True
        if len(starts) == tokens:
            yield text[starts[0] : end]
            fresh = False
            for _ in range(tokens - overlap):
                starts.popleft()
    if fresh:
        yield text[starts[0] : end]


def _sections(text: str) -> list[str]:
    """Return `text` cut before each Markdown heading; a heading without text is kept with the next section."""
    sections: list[list[str]] = [[]]
    fence, has_body = "", False
    for line in text.splitlines(keepends=True):
        mark = _FENCE.match(line)
        if mark and not fence:
            fence = mark[1]
        elif mark and mark[1].startswith(fence) and not line[mark.end() :].strip():
            fence = ""  # a closing fence names no language
        is_heading = _HEADING.match(line) is not None
        if not fence and is_heading and has_body:
            sections.append([])
            has_body = False
        sections[-1].append(line)
        has_body = has_body or (bool(line.strip()) and not is_heading)
    return ["".join(lines).strip() for lines in sections]
