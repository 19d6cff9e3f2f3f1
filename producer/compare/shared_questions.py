"""Finding the questions that two runs have in common, by id, where one has more of them, or other versions of some."""

from __future__ import annotations

from dataclasses import dataclass

from contract.question import Question
from contract.relevance import sources_of
from contract.wording import broken_down

__all__ = ["Asked", "LeftOut", "Shared"]


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Questions that are in no pair because the runs do not share them."""

    only_a: int = 0
    only_b: int = 0
    #: Those that both runs have by id, but with another text, choices, context, key or relevant passages.
    changed: int = 0

    @property
    def of(self) -> int:
        """Total number of ids that are left out."""
        return self.only_a + self.only_b + self.changed

    def describe(self) -> str:
        """Return how many questions are left out, and why."""
        counts = ((self.only_a, "only in A"), (self.only_b, "only in B"), (self.changed, "changed between A and B"))
        return broken_down(counts)


class Asked:
    """The questions of one run by id, small enough to keep in memory for a whole run."""

    def __init__(self) -> None:
        #: Id → version, place in the run.
        self._known: dict[str, tuple[int, int]] = {}

    def add(self, question: Question) -> None:
        """Add the run's next question."""
        self._known[question.id] = _version(question), len(self._known)

    def find(self, question: Question) -> tuple[int, int] | None:
        return self._known.get(question.id)

    def __len__(self) -> int:
        return len(self._known)


def _version(question: Question) -> int:
    """Return a hash of what is asked and what is right; another subject or other metadata change neither."""
    return hash((question.question, question.choices, question.context, question.right, sources_of(question)))


class Shared:
    """The questions of run B that run A was asked as well, found one after the other."""

    def __init__(self, a: Asked) -> None:
        self._a = a
        self.found = 0
        self._only_b = 0
        self._changed = 0
        #: Id of the first question that is not the same in both.
        self.first_changed: str | None = None

    def place_in_a(self, question: Question) -> int | None:
        """Return where A has the next question of B; None if it does not, or has it in another version."""
        known = self._a.find(question)
        if known is None:
            self._only_b += 1
            return None
        version, place = known
        if version != _version(question):
            self._changed += 1
            self.first_changed = self.first_changed or question.id
            return None
        self.found += 1
        return place

    def left_out(self) -> LeftOut:
        """Return what the runs do not share, once all questions of B have been looked for."""
        return LeftOut(len(self._a) - self.found - self._changed, self._only_b, self._changed)
