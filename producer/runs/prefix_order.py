"""Orders questions so that those with a common prompt prefix are sent together, for the workers' prefix cache.

A prompt begins with the description and the examples, which may depend on the question's subject, followed by its
context; a prefix cache holds the most recent prompts. In a shuffled file, questions on one subject or one text are far
apart; sent together, their common prefix is prefilled once.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator

from contract.chunks import chunks
from contract.prompts import describe
from contract.question import Question
from contract.spec import RunSpec, Selection

__all__ = ["PrefixOrder"]

#: Number of questions that are regrouped at a time, so that the run is never in memory as a whole.
WINDOW = 65_536
ALONE = 0


class PrefixOrder:
    """Remembers which questions share a prompt prefix, in eight bytes per question."""

    def __init__(self, spec: RunSpec) -> None:
        self._context = spec.use_context_field
        shots = spec.few_shot
        self._subject = (shots is not None and shots.selection is Selection.SUBJECT) or (
            describe(spec.description, "one") != describe(spec.description, "another")
        )
        self._prefixes = array("q")

    @property
    def needed(self) -> bool:
        """Whether some questions of this run can share a prefix that others do not have."""
        return self._subject or self._context

    def add(self, question: Question) -> None:
        """Record the next question."""
        # The subject's prefix comes first in the prompt; within a subject the file's order is kept.
        shared = question.subject if self._subject else question.context
        self._prefixes.append(hash(shared) if shared else ALONE)

    def grouped(self, ids: Iterable[str]) -> Iterator[str]:
        """Yield `ids`, given in the order in which their questions were added, grouped by prefix."""
        if not self.needed:
            yield from ids
            return
        for window in chunks(zip(ids, self._prefixes, strict=True), WINDOW):
            groups: dict[int | str, list[str]] = {}
            for question_id, prefix in window:
                groups.setdefault(prefix or question_id, []).append(question_id)
            for group in groups.values():
                yield from group
