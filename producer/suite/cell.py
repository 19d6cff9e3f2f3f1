"""One cell of a suite's table: a run, its progress and its accuracy. Nothing here prints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from contract.engine_info import EngineUsed
from contract.ledger import Counts, Run
from contract.mode import Normalization
from contract.verdict import Outcome
from producer.engine_differences import any_simulated, untaken
from producer.export.summary import Summary
from producer.export.summary_json import of_retrieval, over_contexts, over_normalizations
from producer.stats import Interval, RetrievalTally, Share, Tally
from producer.stats.denominators import ALL, RESPONDED

__all__ = ["Cell", "Figure"]


class Figure(NamedTuple):
    """An accuracy of a run."""

    share: Share
    #: Its interval clustered by context, of a run that is over and whose questions share contexts.
    clustered: Interval | None

    @property
    def value(self) -> float:
        """The accuracy, from 0 to 1."""
        return self.share.value

    @property
    def interval(self) -> Interval:
        """The interval to quote."""
        return self.clustered or self.share.interval


@dataclass(frozen=True)
class Cell:
    """One run, that is an entry asked of a model, in its current state."""

    entry: str
    run: Run
    counts: Counts
    #: The engines that have answered it.
    used: Sequence[EngineUsed] = ()
    #: Read from the individual questions of a run that is over.
    summary: Summary | None = None

    @property
    def model(self) -> str:
        """The model's name."""
        return self.run.spec.model

    @cached_property
    def tally(self) -> Tally:
        """Its outcomes; until it is over, it may be unknown which questions without a choice have a key."""
        return self.summary.tally if self.summary else Tally.of_counts(self.counts, self.run.without_key)

    @property
    def simulated(self) -> bool:
        """Whether the simulated engine answered any question, so that the figures are meaningless."""
        return any_simulated(self.used)

    @property
    def left_to_model(self) -> list[str]:
        """Sampling parameters of which the model did not take the run's value."""
        return untaken(self.run, self.used)

    @cached_property
    def accuracy(self) -> Figure | None:
        """Accuracy over all settled questions with a key; None if there are none, or all failed."""
        return self._figure(self.tally.over_all(), ALL)

    @cached_property
    def without_failed(self) -> Figure | None:
        """Accuracy excluding failed questions; None if none failed."""
        return self._figure(self.tally.without_failed(), RESPONDED)

    def _figure(self, found: Share | None, outcomes: frozenset[Outcome]) -> Figure | None:
        clustered = self.summary.context_interval(outcomes) if self.summary else None
        return Figure(found, clustered) if found else None

    @cached_property
    def by_normalization(self) -> dict[Normalization, Share]:
        """Accuracy by each normalization, its own included, of a `likelihood` run that is over."""
        return self.summary.by_normalization() if self.summary else {}

    @property
    def retrieval(self) -> RetrievalTally | None:
        """What the search found, of a run with retrieval that is over."""
        return self.summary.retrieval if self.summary else None

    @property
    def failed(self) -> int:
        """Number of failed questions."""
        return self.counts.of(Outcome.FAILED)

    @property
    def unanswered(self) -> int:
        """Number of questions without a choice."""
        return self.counts.of(Outcome.UNANSWERED)

    def to_json(self) -> dict[str, Any]:
        """Return the content for suite.json and `--json`."""
        found = self.summary  # has the figures that only the individual questions tell
        more = {**over_contexts(found), **over_normalizations(found), **of_retrieval(found)} if found else {}
        return {
            "entry": self.entry,
            "model": self.model,
            "run_id": self.run.run_id,
            "source": self.run.source,
            "mode": self.run.spec.mode.value,
            "state": self.counts.standing,
            "selection": self.run.taken.model_dump(mode="json") if self.run.taken else None,
            **self.tally.to_json(),
            **more,
            "chance": self.run.chance,
            "simulated": self.simulated,
            "left_to_model": self.left_to_model,
        }
