"""A suite's runs over the same questions, in pairs: each group's first one beside its others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from contract.errors import InputError
from contract.ledger import Ledger
from producer.pairing import Comparison, pair_up
from producer.stats import Interval
from producer.stats.paired import holm
from producer.suite.cell import Cell

__all__ = ["Paired", "paired"]


@dataclass(frozen=True, slots=True)
class Paired:
    """Two runs, and what their pairs came to. Differences are `b` minus `a`."""

    a: Cell
    b: Cell
    found: Comparison
    #: The p where all comparisons of the suite are looked at together (Holm); its own where there is no other.
    together: float

    @property
    def title(self) -> str:
        """What is compared: two models asked one entry, or two entries asked of one model."""
        if self.a.entry == self.b.entry:
            return f"{self.a.entry}: {self.b.model} against {self.a.model}"
        return f"{self.a.model}: {self.b.entry} against {self.a.entry}"

    @property
    def interval(self) -> Interval:
        """The difference's, by contexts where questions share them."""
        return self.found.context_interval or self.found.pairs.interval()

    def to_json(self) -> dict[str, Any]:
        """For suite.json and `--json`; `compare` has more."""
        return {
            "a": self.a.run.run_id,
            "b": self.b.run.run_id,
            "pairs": self.found.pairs.of,
            "either_failed": self.found.failed.of,
            "difference": {"value": round(self.found.pairs.difference, 6), **self.interval.to_json()},
            "p_value": self.found.p_value,
            "p_value_together": self.together,
            "undecided": self.found.undecided,
        }


def paired(ledger: Ledger, groups: Sequence[Sequence[Cell]]) -> tuple[Paired, ...]:
    """The comparisons of each group, whose runs are settled and asked the same questions."""
    found = [each for group in groups for each in _of_group(ledger, group)]
    together = holm([each.found.p_value for each in found])
    return tuple(replace(each, together=p) for each, p in zip(found, together, strict=True))


def _of_group(ledger: Ledger, group: Sequence[Cell]) -> Iterator[Paired]:
    first, *others = group
    for other in others:
        try:
            comparison = pair_up(ledger, first.run, other.run)
        except InputError:
            continue  # no question with a key was answered in both, which the table shows
        yield Paired(first, other, comparison, comparison.p_value)
