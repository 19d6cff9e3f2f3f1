"""Two runs over the same questions, one or both with retrieval.

Beside a run without it: what the passages repaired, and what they broke. Beside another run with it: which of the two
found what answers.
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
    """What passages did to a question that one of the runs got right."""

    #: Not right without them, right with them.
    REPAIRED = "repaired"
    #: Right without them, not right with them.
    BROKEN = "broken"


class Shown(StrEnum):
    """Whether one of the passages that a question was shown is one that answers it."""

    RIGHT = "right_passage_shown"
    OTHERS = "right_passage_not_shown"
    UNKNOWN = "source_not_named"

    @classmethod
    def by(cls, retrieval_hit: bool | None) -> Shown:
        """From `Verdict.retrieval_hit`."""
        return {True: cls.RIGHT, False: cls.OTHERS, None: cls.UNKNOWN}[retrieval_hit]


@dataclass(slots=True)
class RetrievalEffect:
    """Pairs counted apart by what was shown. Unanswered is not right; where a run failed, nothing can be said."""

    #: (what was shown, right without passages, right with passages) → questions.
    kinds: Counter[tuple[Shown, bool, bool]] = field(default_factory=Counter)
    #: Pairs of which one or both failed.
    failed: int = 0
    #: Pairs for which nothing was looked for: the question brought its own context.
    own_context: int = 0
    #: Of the pairs that are counted, those without any passage in the prompt: nothing was found, or nothing had room.
    nothing_shown: int = 0

    def add(self, without: Side, retrieved: Side) -> Effect | None:
        """Count one question with a key, by its sides without and with retrieval; says what became of it."""
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
        """The pairs of these kinds, A being the run without retrieval and B the one with it; None of none."""
        both, only_a, only_b, neither = (
            sum(self.kinds[each, before, after] for each in shown)
            for before, after in ((True, True), (True, False), (False, True), (False, False))
        )
        return Pairs(both, only_a, only_b, neither) if both + only_a + only_b + neither else None

    def to_json(self) -> dict[str, Any]:
        """For `compare --json`: all pairs, and each kind of them apart; null where there is none of a kind."""
        kinds = {"all": tuple(Shown), **{each.value: (each,) for each in Shown}}
        return {
            **{name: _json(self.pairs(*shown)) for name, shown in kinds.items()},
            "either_failed": self.failed,
            "own_context": self.own_context,
            "nothing_shown": self.nothing_shown,
        }


@dataclass(slots=True)
class RecallPairs:
    """Questions that name their source, by the runs that retrieved a passage that answers them."""

    #: How far down both are looked at: as far as the run that retrieves less goes.
    depth: int
    #: (A found one, B found one) → questions.
    kinds: Counter[tuple[bool, bool]] = field(default_factory=Counter)

    def add(self, a: Side, b: Side) -> None:
        """Count one question, if both runs looked something up for it and it says where its answer stands."""
        if a.found_at is not None and b.found_at is not None:
            self.kinds[0 < a.found_at <= self.depth, 0 < b.found_at <= self.depth] += 1

    def pairs(self) -> Pairs | None:
        """What is right here is that a passage that answers was found; None of no question."""
        return Pairs.counted(self.kinds) if self.kinds else None

    def to_json(self) -> dict[str, Any] | None:
        """For `compare --json`."""
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
