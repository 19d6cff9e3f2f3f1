"""Questions about the same text are sent one after another, so that a worker's prefix cache has the text already.

A prompt begins with the question's context, and a prefix cache holds what was asked last. In a shuffled file the
questions about one text stand far apart; where they come together, the text is prefilled once.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from itertools import islice

from contract.question import Question

__all__ = ["Company"]

#: Questions among which those about one text are brought together; what is sent is never all in memory.
WINDOW = 65_536
NO_TEXT = 0


class Company:
    """Remembers, eight bytes a question, which ones have their context in common."""

    def __init__(self) -> None:
        self._texts = array("q")

    def add(self, question: Question) -> None:
        """Take the next question into account."""
        self._texts.append(hash(question.context) if question.context else NO_TEXT)

    def together(self, ids: Iterable[str]) -> Iterator[str]:
        """`ids`, in the order in which their questions were added, with those about one text next to its first."""
        placed = zip(ids, self._texts, strict=True)
        while window := list(islice(placed, WINDOW)):
            companies: dict[int | str, list[str]] = {}
            for question_id, text in window:
                companies.setdefault(text or question_id, []).append(question_id)
            for company in companies.values():
                yield from company
