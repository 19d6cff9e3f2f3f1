"""Paired comparisons of a suite's runs over the same questions: the first of each group with each of the others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from contract.errors import InputError
from contract.ledger import Ledger
from producer.compare.comparison import Comparison
from producer.compare.pairing import First, Pairing
from producer.stats.paired import holm
from producer.suite.cell import Cell

__all__ = ["Paired", "paired"]


@dataclass(frozen=True, slots=True)
class Paired:
    """Paired comparison of two runs. Differences are `b` minus `a`."""

    a: Cell
    b: Cell
    found: Comparison
    #: The p-value adjusted for all comparisons of the suite (Holm); unadjusted if there is only one.
    adjusted_p: float

    @property
    def title(self) -> str:
        """What is compared: two models on one entry, or two entries on one model."""
        if self.a.entry == self.b.entry:
            return f"{self.a.entry}: {self.b.model} vs. {self.a.model}"
        return f"{self.a.model}: {self.b.entry} vs. {self.a.entry}"

    def to_json(self) -> dict[str, Any]:
        """Return the content for suite.json and `--json`; `compare` has more."""
        return {
            "a": self.a.run.run_id,
            "b": self.b.run.run_id,
            "pairs": self.found.pairs.of,
            "either_failed": self.found.failed.of,
            "difference": {"value": round(self.found.pairs.difference, 6), **self.found.interval.to_json()},
            "p_value": self.found.p_value,
            "p_value_together": self.adjusted_p,
            "undecided": self.found.undecided,
        }


def paired(ledger: Ledger, groups: Sequence[Sequence[Cell]]) -> tuple[Paired, ...]:
    """Return the comparisons within each group of settled runs over the same questions."""
    found = [each for group in groups for each in _of_group(ledger, group)]
    adjusted = holm([comparison.p_value for _, _, comparison in found])
    return tuple(Paired(*each, p) for each, p in zip(found, adjusted, strict=True))


def _of_group(ledger: Ledger, group: Sequence[Cell]) -> Iterator[tuple[Cell, Cell, Comparison]]:
    first, *others = group
    of_first = First(first.run)
    pairings = [Pairing(of_first, each.run, most_flips=0) for each in others]  # nobody sees flips, and they may be many
    with suppress(InputError):  # its failed questions have been reopened meanwhile
        of_first.read(ledger)
        for other, pairing in zip(others, pairings, strict=True):
            with suppress(InputError):  # no question with a key was answered in both, as the table shows
                yield first, other, pairing.read(ledger)
