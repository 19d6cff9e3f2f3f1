"""Orders questions so that those with a common prompt prefix are sent together, for the workers' prefix cache.

A prompt begins with the description and the examples, which may depend on the question's subject, followed by its
context; a prefix cache holds the most recent prompts. In a shuffled file, questions on one subject or one text are far
apart; sent together, their common prefix is prefilled once.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence

from contract.chunks import chunks
from contract.ledger import Ledger, Run
from contract.prompts import names_subject
from contract.question import Question
from contract.spec import ExampleSelection, RunSpec

__all__ = ["PrefixOrder", "grouped_again"]

#: Number of questions that are grouped at a time, so that the run is never in memory as a whole.
GROUPED = 65_536
#: Number of questions sent at a time in the file's order: some hundredths of a second's work.
IN_ORDER = 4_096
#: Number of questions that are in memory at a time when they are grouped again.
READ_TOGETHER = 500
#: Stands for the prefix of a question that shares none.
ALONE = 0


class PrefixOrder:
    """Remembers which questions share a prompt prefix, in eight bytes per question."""

    def __init__(self, spec: RunSpec) -> None:
        self._by_context = spec.use_context_field
        shots = spec.few_shot
        self._by_subject = (shots is not None and shots.selection is ExampleSelection.SUBJECT) or (
            names_subject(spec.description)
        )
        self._prefixes = array("q")

    @property
    def needed(self) -> bool:
        """Whether only some questions of this run may share a prefix, so that grouping them helps."""
        return self._by_subject or self._by_context

    def add(self, question: Question | None) -> None:
        """Record the next question; None: one that cannot be read, which shares no prefix."""
        # The subject's prefix comes first in the prompt; within a subject the file's order is kept.
        shared = question and (question.subject if self._by_subject else question.context)
        self._prefixes.append(hash(shared) if shared else ALONE)

    @property
    def window(self) -> int:
        """Number of questions that are sent together, and grouped if needed."""
        return GROUPED if self.needed else IN_ORDER

    def grouped(self, ids: Sequence[str], start: int = 0) -> list[str]:
        """Return the ids of one window, whose first question is the one added as number `start`, grouped by prefix."""
        if not self.needed:
            return list(ids)
        groups: dict[int | str, list[str]] = {}
        for question_id, prefix in zip(ids, self._prefixes[start : start + len(ids)], strict=True):
            groups.setdefault(prefix or question_id, []).append(question_id)
        return [question_id for group in groups.values() for question_id in group]


def grouped_again(ledger: Ledger, run: Run, ids: Iterable[str]) -> Iterator[str]:
    """Yield `ids`, of questions of `run`, in the order in which to send them again: grouped by prefix if that helps.

    In that case, it reads the questions from the ledger, some at a time. Raises LedgerError.
    """
    if not PrefixOrder(run.spec).needed:
        yield from ids
        return
    for window in chunks(ids, GROUPED):
        order = PrefixOrder(run.spec)
        for part in chunks(window, READ_TOGETHER):
            questions = ledger.questions(run.run_id, part)
            for question_id in part:
                order.add(questions.get(question_id))
        yield from order.grouped(window)
