"""Comparisons of a report's first run with each of the others, paired while streaming and prepared for the template."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from contract.errors import InputError
from contract.ledger import Ledger, Run
from contract.question import Question
from contract.verdict import Verdict
from producer.compare.comparison import Comparison
from producer.compare.incomparable import refuse_incomparable
from producer.compare.pairing import First, Pairing
from producer.compare.spec_differences import differences
from producer.stats.paired import holm

__all__ = ["ComparisonView", "RunComparison"]

#: Flipped questions that a comparison lists; the table's filter finds all of them.
MOST_FLIPS = 20
#: The stream of a run's results.
Results = Iterator[tuple[Question, Verdict | None]]


@dataclass(frozen=True)
class ComparisonView:
    """Comparison of the first run with another one for the template: the pairs, or why there are none."""

    a: Run
    b: Run
    found: Comparison | None
    refusal: str = ""
    #: The p-value adjusted for all comparisons of the report (Holm); None if there is only one.
    adjusted_p: float | None = None

    @property
    def changes(self) -> list[tuple[str, Any, Any]]:
        """The settings that differ, with the values of A and B."""
        return [(name, *both) for name, both in differences(self.a.spec, self.b.spec).items()]


class RunComparison:
    """Pairs the first run with each of the others, streaming each run once."""

    def __init__(self, ledger: Ledger, runs: Sequence[Run], *, shared: bool) -> None:
        """Create it; if `shared`, runs that asked different questions are paired by those that they have in common."""
        self._ledger, self._runs = ledger, runs
        self._first = First(runs[0])
        #: By the other run's id: the pairs so far, or why they cannot be paired.
        self._pairings: dict[str, Pairing | InputError] = {}
        for other in runs[1:]:
            try:
                refuse_incomparable(ledger, runs[0], other, shared=shared)
                self._pairings[other.run_id] = Pairing(self._first, other, MOST_FLIPS)
            except InputError as trouble:
                self._pairings[other.run_id] = trouble
        self._wanted = any(isinstance(each, Pairing) for each in self._pairings.values())

    def pairing(self, run: Run, results: Results) -> Results:
        """Return the `results` of `run`, and pair each as it passes. The first run must come first."""
        if run is self._runs[0]:
            return _adding(results, self._first) if self._wanted else results
        pairing = self._pairings[run.run_id]
        return _adding(results, pairing) if isinstance(pairing, Pairing) else results

    def comparisons(self) -> list[ComparisonView]:
        """Return the comparisons of the first run with each of the others, in their order."""
        found = [self._view(other) for other in self._runs[1:]]
        made = {at: each.found.p_value for at, each in enumerate(found) if each.found}
        if len(made) > 1:
            for at, adjusted_p in zip(made, holm(list(made.values())), strict=True):
                found[at] = replace(found[at], adjusted_p=adjusted_p)
        return found

    def _view(self, other: Run) -> ComparisonView:
        first, pairing = self._runs[0], self._pairings[other.run_id]
        if isinstance(pairing, InputError):
            return ComparisonView(first, other, None, str(pairing))
        try:
            return ComparisonView(first, other, pairing.comparison(self._ledger))
        except InputError as trouble:  # nothing to compare, as only the questions tell
            return ComparisonView(first, other, None, str(trouble))


def _adding(results: Results, to: First | Pairing) -> Results:
    for question, verdict in results:
        to.add(question, verdict)
        yield question, verdict
