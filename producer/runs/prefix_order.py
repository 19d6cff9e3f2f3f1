"""Questions whose prompts begin alike are sent one after another, so that a worker's prefix cache has that beginning.

A prompt begins with a description and the examples, which may be those of the question's subject, and goes on with its
context; a prefix cache holds what was asked last. In a shuffled file the questions of one subject or about one text
stand far apart; where they come together, what they share is prefilled once.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator

from contract.chunks import chunks
from contract.prompts import describe
from contract.question import Question
from contract.spec import RunSpec, Selection

__all__ = ["PrefixOrder"]

#: Questions among which those that begin alike are brought together; what is sent is never all in memory.
WINDOW = 65_536
ALONE = 0


class PrefixOrder:
    """Remembers, eight bytes a question, which ones share a beginning that others of the run have not."""

    def __init__(self, spec: RunSpec) -> None:
        self._context = spec.use_context_field
        shots = spec.few_shot
        self._subject = (shots is not None and shots.selection is Selection.SUBJECT) or (
            describe(spec.description, "one") != describe(spec.description, "another")
        )
        self._beginnings = array("q")

    @property
    def needed(self) -> bool:
        """Whether questions of this run can share a beginning at all."""
        return self._subject or self._context

    def add(self, question: Question) -> None:
        """Take the next question into account."""
        # A subject's beginning comes first, and what follows it is left in the file's order.
        shared = question.subject if self._subject else question.context
        self._beginnings.append(hash(shared) if shared else ALONE)

    def grouped(self, ids: Iterable[str]) -> Iterator[str]:
        """`ids`, in the order in which their questions were added, with those that begin alike next to the first."""
        if not self.needed:
            yield from ids
            return
        placed = zip(ids, self._beginnings, strict=True)
        for window in chunks(placed, WINDOW):
            groups: dict[int | str, list[str]] = {}
            for question_id, beginning in window:
                groups.setdefault(beginning or question_id, []).append(question_id)
            for group in groups.values():
                yield from group
