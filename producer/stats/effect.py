"""The effect of retrieval, from two runs over the same questions, one or both with retrieval.

Compared with a run without it: which answers the passages repaired, and which they broke. Compared with another run
with it: which of the two found a relevant passage.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from contract.verdict import ContextSource
from producer.stats.paired import Pairs
from producer.stats.side import Side

__all__ = ["Effect", "RecallPairs", "RetrievalEffect", "Shown"]


class Effect(StrEnum):
    """Effect of the passages on a question that exactly one of the runs got right."""

    #: Incorrect without them, correct with them.
    REPAIRED = "repaired"
    #: Correct without them, incorrect with them.
    BROKEN = "broken"


class Shown(StrEnum):
    """Whether a relevant passage was shown for a question."""

    RIGHT = "right_passage_shown"
    OTHERS = "right_passage_not_shown"
    UNKNOWN = "source_not_named"

    @classmethod
    def by(cls, retrieval_hit: bool | None) -> Shown:
        """Convert from `Verdict.retrieval_hit`."""
        return {True: cls.RIGHT, False: cls.OTHERS, None: cls.UNKNOWN}[retrieval_hit]


@dataclass(slots=True)
class RetrievalEffect:
    """Pairs counted by what was shown. Unanswered counts as incorrect; pairs that failed in either run are excluded."""

    #: (what was shown, right without passages, right with passages) → number of questions.
    kinds: Counter[tuple[Shown, bool, bool]] = field(default_factory=Counter)
    #: Pairs in which one or both runs failed.
    failed: int = 0
    #: Pairs without retrieval because the question has its own context.
    own_context: int = 0
    #: Counted pairs without any passage in the prompt: nothing was found, or nothing fitted.
    nothing_shown: int = 0

    def add(self, without: Side, retrieved: Side) -> Effect | None:
        """Count one question with a key, by its sides without and with retrieval; return the effect, if any."""
        if without.failed or retrieved.failed:
            self.failed += 1
            return None
        if retrieved.context_source is ContextSource.QUESTION:
            self.own_context += 1
            return None
        self.nothing_shown += retrieved.context_source is ContextSource.NONE
        before, after = without.right, retrieved.right
        self.kinds[Shown.by(retrieved.retrieval_hit), before, after] += 1
        return None if before == after else Effect.REPAIRED if after else Effect.BROKEN

    def pairs(self, *shown: Shown) -> Pairs | None:
        """Return the pairs of these kinds; A is the run without retrieval and B the one with it. None if empty."""
        both, only_a, only_b, neither = (
            sum(self.kinds[each, before, after] for each in shown)
            for before, after in ((True, True), (True, False), (False, True), (False, False))
        )
        return Pairs(both, only_a, only_b, neither) if both + only_a + only_b + neither else None

    def to_json(self) -> dict[str, Any]:
        """Return the content for `compare --json`: all pairs, and each kind separately; null if a kind is empty."""
        kinds = {"all": tuple(Shown), **{each.value: (each,) for each in Shown}}
        return {
            **{name: _json(self.pairs(*shown)) for name, shown in kinds.items()},
            "either_failed": self.failed,
            "own_context": self.own_context,
            "nothing_shown": self.nothing_shown,
        }


@dataclass(slots=True)
class RecallPairs:
    """Questions that name their source, counted by which of the runs retrieved a relevant passage."""

    #: Number of top passages considered in both runs: the smaller of the two runs' numbers of retrieved passages.
    depth: int
    #: (A found one, B found one) → number of questions.
    kinds: Counter[tuple[bool, bool]] = field(default_factory=Counter)

    def add(self, a: Side, b: Side) -> None:
        """Count one question, if both runs retrieved for it and it names its source."""
        if a.found_at is not None and b.found_at is not None:
            self.kinds[0 < a.found_at <= self.depth, 0 < b.found_at <= self.depth] += 1

    def pairs(self) -> Pairs | None:
        """Return the pairs, where `right` means that a relevant passage was found; None without questions."""
        return Pairs.counted(self.kinds) if self.kinds else None

    def to_json(self) -> dict[str, Any] | None:
        """Return the content for `compare --json`."""
        pairs = self.pairs()
        if pairs is None:
            return None
        a, b = pairs.accuracy_a.to_json(), pairs.accuracy_b.to_json()
        return {"depth": self.depth, "a": a, "b": b, **pairs.to_json()}


def _json(pairs: Pairs | None) -> dict[str, Any] | None:
    if pairs is None:
        return None
    return {
        "repaired": pairs.only_b,
        "broken": pairs.only_a,
        "accuracy_without": pairs.accuracy_a.to_json(),
        "accuracy_with": pairs.accuracy_b.to_json(),
        **pairs.to_json(),
    }
