"""The figures of a suite: an accuracy per entry and model, and over entries their mean. Nothing here prints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from contract.ledger import Counts, Run
from contract.verdict import Outcome
from producer.stats import Interval, Share, Tally, macro, macro_interval

__all__ = ["Cell", "MeanOver", "Table"]


@dataclass(frozen=True, slots=True)
class Cell:
    """One run: an entry asked of a model, as far as it is."""

    entry: str
    run: Run
    counts: Counts
    #: Whether the simulated engine answered any of it: what it says means nothing.
    simulated: bool = False

    @property
    def model(self) -> str:
        """The model's name."""
        return self.run.spec.model

    @property
    def tally(self) -> Tally:
        """Its outcomes. What they cannot tell before the end, questions without a key, is told at the end."""
        return Tally.of_counts(self.counts, self.run.without_key)

    @property
    def accuracy(self) -> Share | None:
        """Of all settled questions with a key; None of none."""
        return self.tally.over_all()

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
            **self.tally.to_json(),
            "chance": self.run.chance,
            "simulated": self.simulated,
        }


@dataclass(frozen=True, slots=True)
class MeanOver:
    """The mean over entries of one model's accuracies, each entry weighing the same."""

    model: str
    value: float
    #: None where entries have questions in common: their accuracies go together, and by how much is not known.
    interval: Interval | None
    entries: int

    def to_json(self) -> dict[str, Any]:
        """For suite.json and `--json`."""
        bounds = self.interval.to_json() if self.interval else {"low": None, "high": None}
        return {"model": self.model, "value": round(self.value, 6), **bounds, "entries": self.entries}


@dataclass(frozen=True, slots=True)
class Table:
    """All runs of a suite, in the order of its file."""

    suite: str
    cells: tuple[Cell, ...]
    #: Whether entries have questions in common.
    shared: bool

    @property
    def entries(self) -> tuple[str, ...]:
        """The rows."""
        return tuple(dict.fromkeys(each.entry for each in self.cells))

    @property
    def models(self) -> tuple[str, ...]:
        """The columns."""
        return tuple(dict.fromkeys(each.model for each in self.cells))

    def cell(self, entry: str, model: str) -> Cell | None:
        """None where the entry is not asked of the model."""
        return next((each for each in self.cells if (each.entry, each.model) == (entry, model)), None)

    def of_entry(self, entry: str) -> list[Cell]:
        """Its runs."""
        return [each for each in self.cells if each.entry == entry]

    @property
    def settled(self) -> bool:
        """Whether every question of every run has its verdict."""
        return all(each.counts.finished for each in self.cells)

    @property
    def in_the_mean(self) -> list[str]:
        """Entries that are settled for every model of the suite, and have an accuracy for each."""
        models = len(self.models)

        def counts(entry: str) -> bool:
            cells = self.of_entry(entry)
            return len(cells) == models and all(each.counts.finished and each.accuracy for each in cells)

        return [entry for entry in self.entries if counts(entry)]

    def means(self) -> list[MeanOver]:
        """Each model's mean over the same entries; none over fewer than two."""
        entries = self.in_the_mean
        if len(entries) < 2:
            return []
        return [self._mean(model, entries) for model in self.models]

    def _mean(self, model: str, entries: Sequence[str]) -> MeanOver:
        cells = [each for each in self.cells if each.model == model and each.entry in entries]
        shares = [share for each in cells if (share := each.accuracy)]
        value = macro(shares)
        assert value is not None, "there are entries in the mean"
        return MeanOver(model, value, None if self.shared else macro_interval(shares), len(shares))

    @property
    def mean_chance(self) -> float | None:
        """What guessing scores in the mean over the same entries; None where one of them has no chance level."""
        chances = [self.of_entry(entry)[0].run.chance for entry in self.in_the_mean]
        known = [each for each in chances if each is not None]
        return sum(known) / len(known) if known and len(known) == len(chances) else None

    def comparable(self) -> list[list[Cell]]:
        """Settled runs that asked the same questions, where there are several: in pairs they say more than intervals.

        Those of one entry first, then those of entries that ask the same questions in several ways.
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
        """For suite.json and `--json`."""
        return {
            "suite": self.suite,
            "state": "settled" if self.settled else "not settled",
            "runs": [each.to_json() for each in self.cells],
            "means": [each.to_json() for each in self.means()],
            "mean_over": self.in_the_mean if self.means() else [],
            "mean_chance": self.mean_chance if self.means() else None,
            "entries_share_questions": self.shared,
            "comparable": [[each.run.run_id for each in group] for group in self.comparable()],
        }
