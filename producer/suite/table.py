"""The figures of a suite: an accuracy per entry and model, and the means over entries. Nothing here prints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from producer.stats import Interval, macro, mean_interval
from producer.suite.cell import Cell, Figure
from producer.suite.pairs import Paired

__all__ = ["MeanOver", "Table"]


@dataclass(frozen=True, slots=True)
class MeanOver:
    """The mean over entries of one model's accuracies, with entries weighted equally."""

    model: str
    value: float
    #: None if entries have questions or contexts in common: their accuracies are correlated to an unknown degree.
    interval: Interval | None
    entries: int
    #: The same excluding failed questions; None if none failed.
    without_failed: MeanOver | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the content for suite.json and `--json`."""
        bounds = self.interval.to_json() if self.interval else {"low": None, "high": None}
        without = {"without_failed": self.without_failed.to_json()} if self.without_failed else {}
        return {"model": self.model, "value": round(self.value, 6), **bounds, "entries": self.entries, **without}


@dataclass(frozen=True)
class Table:
    """All runs of a suite, in the order of its file."""

    suite: str
    cells: tuple[Cell, ...]
    #: Whether entries have questions or contexts in common.
    shared: bool
    #: Pairs of the runs that `comparable` groups, once all are settled.
    comparisons: Sequence[Paired] = ()

    @property
    def entries(self) -> tuple[str, ...]:
        """Names of the rows."""
        return tuple(dict.fromkeys(each.entry for each in self.cells))

    @property
    def models(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(dict.fromkeys(each.model for each in self.cells))

    def cell(self, entry: str, model: str) -> Cell | None:
        """Return the run of `entry` and `model`; None if the entry is not asked of the model."""
        return next((each for each in self.cells if (each.entry, each.model) == (entry, model)), None)

    def of_entry(self, entry: str) -> list[Cell]:
        """Return the runs of `entry`."""
        return [each for each in self.cells if each.entry == entry]

    @property
    def settled(self) -> bool:
        """Whether every question of every run has a verdict."""
        return all(each.counts.finished for each in self.cells)

    @cached_property
    def in_the_mean(self) -> list[str]:
        """Entries that are settled for every model of the suite, and have an accuracy for each.

        An entry all of whose questions failed has none; counted as wrong answers, they would decide the mean.
        """
        models = len(self.models)

        def counts(entry: str) -> bool:
            cells = self.of_entry(entry)
            return len(cells) == models and all(each.counts.finished and each.accuracy for each in cells)

        return [entry for entry in self.entries if counts(entry)]

    def means(self) -> list[MeanOver]:
        """Return each model's mean over the same entries; empty for fewer than two entries."""
        entries = self.in_the_mean
        if len(entries) < 2:
            return []
        return [self._mean(model, entries) for model in self.models]

    def _mean(self, model: str, entries: Sequence[str]) -> MeanOver:
        cells = [each for each in self.cells if each.model == model and each.entry in entries]
        mean = self._mean_of(model, [each.accuracy for each in cells])
        if not any(each.without_failed for each in cells):
            return mean
        responded = [each.without_failed or each.accuracy for each in cells]  # the same where none failed
        return replace(mean, without_failed=self._mean_of(model, responded))

    def _mean_of(self, model: str, figures: Sequence[Figure | None]) -> MeanOver:
        """Return the mean of accuracies, which all entries in the mean have."""
        found = [each for each in figures if each]
        shares = [each.share for each in found]
        within = None if self.shared else mean_interval(shares, [each.clustered for each in found])
        return MeanOver(model, macro(shares), within, len(shares))

    @property
    def mean_chance(self) -> float | None:
        """Chance level of the mean over the same entries; None if one of them has none."""
        chances = [self.of_entry(entry)[0].run.chance for entry in self.in_the_mean]
        known = [each for each in chances if each is not None]
        return sum(known) / len(known) if known and len(known) == len(chances) else None

    @property
    def clustered(self) -> bool:
        """Whether any interval is clustered by context."""
        return any(each.accuracy and each.accuracy.clustered for each in self.cells)

    def comparable(self) -> list[list[Cell]]:
        """Return groups of settled runs over the same questions, whose paired comparison says more than intervals.

        First the groups within an entry, then those of entries that ask the same questions in different ways.
        """
        done = [each for each in self.cells if each.counts.finished]
        by_entry = [[each for each in done if each.entry == entry] for entry in self.entries]
        digests = dict.fromkeys(each.run.spec.questions_digest for each in done)
        by_model = [
            [each for each in done if each.model == model and each.run.spec.questions_digest == digest]
            for model in self.models
            for digest in digests
        ]
        return [group for group in (*by_entry, *by_model) if len(group) > 1]

    def to_json(self) -> dict[str, Any]:
        """Return the content for suite.json and `--json`."""
        means = self.means()
        return {
            "suite": self.suite,
            "state": "settled" if self.settled else "not settled",
            "runs": [each.to_json() for each in self.cells],
            "means": [each.to_json() for each in means],
            "mean_over": self.in_the_mean if means else [],
            "mean_chance": self.mean_chance if means else None,
            "entries_share_questions": self.shared,
            "comparisons": [each.to_json() for each in self.comparisons],
            "comparable": [[each.run.run_id for each in group] for group in self.comparable()],
        }
