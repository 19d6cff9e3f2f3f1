"""One cell of a suite's table: a run, its progress and its accuracy. Nothing here prints."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from contract.ledger import Counts, Run
from contract.verdict import Outcome
from producer.output import Lines
from producer.stats import Interval, Share, Tally
from producer.stats.failures import Failures

__all__ = ["Cell"]


@dataclass(frozen=True, slots=True)
class Cell:
    """One run, that is an entry asked of a model, in its current state."""

    entry: str
    run: Run
    counts: Counts
    #: Whether the simulated engine answered any question, so that the figures are meaningless.
    simulated: bool = False
    #: Sampling parameters of which the model did not take the run's value.
    left_to_model: tuple[str, ...] = ()
    #: Intervals clustered by context of the accuracy over all questions, and excluding failed ones, for a run that is
    #: over and whose questions share contexts.
    context_interval: Interval | None = None
    responded_context_interval: Interval | None = None
    #: Read from the individual questions of a run that is over: its tally, what makes its accuracy doubtful, and why
    #: questions failed.
    tally_read: Tally | None = None
    warnings: Lines = field(default_factory=list)
    failures: Failures = field(default_factory=Failures)

    @property
    def model(self) -> str:
        """The model's name."""
        return self.run.spec.model

    @property
    def tally(self) -> Tally:
        """Its outcomes; until it is over, it may be unknown which questions without a choice have a key."""
        return self.tally_read or Tally.of_counts(self.counts, self.run.without_key)

    @property
    def accuracy(self) -> Share | None:
        """Accuracy over all settled questions with a key; None if there are none, or all failed."""
        return self.tally.over_all()

    @property
    def interval(self) -> Interval | None:
        """Interval of the accuracy, clustered by context if questions share contexts."""
        return self.context_interval or (self.accuracy.interval if self.accuracy else None)

    @property
    def without_failed(self) -> Share | None:
        """Accuracy excluding failed questions; None if none failed."""
        return self.tally.without_failed()

    @property
    def interval_without_failed(self) -> Interval | None:
        """Interval of the accuracy excluding failed questions, clustered by context if questions share contexts."""
        return self.responded_context_interval or (self.without_failed.interval if self.without_failed else None)

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
        return {
            "entry": self.entry,
            "model": self.model,
            "run_id": self.run.run_id,
            "source": self.run.source,
            "mode": self.run.spec.mode.value,
            "state": self.counts.standing,
            "selection": self.run.taken.model_dump(mode="json") if self.run.taken else None,
            **self.tally.to_json(),
            **_named("accuracy_context_interval", self.context_interval),
            **_named(
                "accuracy_without_failed_context_interval",
                self.responded_context_interval if self.without_failed else None,
            ),
            "chance": self.run.chance,
            "simulated": self.simulated,
            "left_to_model": list(self.left_to_model),
        }


def _named(name: str, found: Interval | None) -> dict[str, Any]:
    return {name: found.to_json()} if found else {}
