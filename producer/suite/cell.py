"""One figure of a suite's table: a run, how far it is, and its accuracy. Nothing here prints."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from contract.ledger import Counts, Run
from contract.verdict import Outcome
from producer.stats import Interval, Share, Tally

__all__ = ["Cell"]


@dataclass(frozen=True, slots=True)
class Cell:
    """One run: an entry asked of a model, as far as it is."""

    entry: str
    run: Run
    counts: Counts
    #: Whether the simulated engine answered any of it: what it says means nothing.
    simulated: bool = False
    #: Of the accuracy over all questions, and over those that did not fail, where a settled run's share contexts.
    context_interval: Interval | None = None
    heard_context_interval: Interval | None = None
    #: Of a settled run, what its questions came to one by one, where the counters cannot tell it.
    counted: Tally | None = None

    @property
    def model(self) -> str:
        """The model's name."""
        return self.run.spec.model

    @property
    def tally(self) -> Tally:
        """Its outcomes. What they cannot tell before the end, questions without a key, is told at the end."""
        return self.counted or Tally.of_counts(self.counts, self.run.without_key)

    @property
    def accuracy(self) -> Share | None:
        """Over all settled questions with a key; None where there is none."""
        return self.tally.over_all()

    @property
    def interval(self) -> Interval | None:
        """The accuracy's, by contexts where questions share them."""
        return self.context_interval or _bounds(self.accuracy)

    @property
    def without_failed(self) -> Share | None:
        """The accuracy of the questions that did not fail; None where none failed."""
        return self.tally.without_failed()

    @property
    def interval_without_failed(self) -> Interval | None:
        """Its interval, by contexts where questions share them."""
        return self.heard_context_interval or _bounds(self.without_failed)

    @property
    def failed(self) -> int:
        """Questions on which the model was not heard."""
        return self.counts.of(Outcome.FAILED)

    @property
    def unanswered(self) -> int:
        """Questions to which it gave no choice."""
        return self.counts.of(Outcome.UNANSWERED)

    def to_json(self) -> dict[str, Any]:
        """For suite.json and `--json`."""
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
                "accuracy_without_failed_context_interval", self.heard_context_interval if self.without_failed else None
            ),
            "chance": self.run.chance,
            "simulated": self.simulated,
        }


def _bounds(found: Share | None) -> Interval | None:
    return Interval(found.low, found.high) if found else None


def _named(name: str, found: Interval | None) -> dict[str, Any]:
    return {name: found.to_json()} if found else {}
