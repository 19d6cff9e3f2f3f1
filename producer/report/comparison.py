"""The first run of a page beside each other one: paired while the runs pass by, then put into the template's words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from contract.errors import InputError
from contract.ledger import Ledger, Run
from contract.question import Question
from contract.verdict import Verdict
from producer.output import Lines, difference, p_value, sharing
from producer.pairing import Comparison, Pairing, differences, refuse_incomparable, side
from producer.retrieval_summary import effect_lines, recall_lines
from producer.stats import Pairs
from producer.stats.paired import holm
from producer.stats.side import Side

__all__ = ["Against", "RunComparison"]

#: What streams by of a run.
Results = Iterator[tuple[Question, Verdict | None]]


@dataclass(frozen=True)
class Against:
    """The first run beside another one: the pairs, or why there are none."""

    a: Run
    b: Run
    found: Comparison | None
    refusal: str = ""
    #: The p where all comparisons of the report are looked at together; None of a single one.
    together: float | None = None

    @property
    def effect(self) -> Lines:
        """What passages repaired and broke, where exactly one of the runs had them; where both had, who found more."""
        found = self.found
        if found and found.recall:
            return recall_lines(found.recall)
        if found and found.retrieval:
            return effect_lines(found.retrieval, *found.names, found.besides_retrieval)
        return []

    @property
    def p_value(self) -> str:
        """The p of no difference, in words."""
        alone = p_value(self.found.p_value) if self.found else ""
        return (
            alone if self.together is None else f"{alone}; {p_value(self.together)} among all comparisons here (Holm)"
        )

    @property
    def sharing(self) -> str:
        """How many questions go together, and why."""
        return sharing(self.found.contexts, self.a) if self.found else ""

    @property
    def alone(self) -> str:
        """McNemar's p, which takes each question for its own, in words."""
        return p_value(self.found.pairs.p_value()) if self.found else ""

    @property
    def subjects(self) -> list[tuple[str, Pairs, str]]:
        """The same pairs by subject, with their difference in words."""
        by_subject = self.found.by_subject if self.found else {}
        return [(name or "none named", pairs, difference(pairs)) for name, pairs in by_subject.items()]

    @property
    def changes(self) -> list[tuple[str, Any, Any]]:
        return [(name, *both) for name, both in differences(self.a.spec, self.b.spec).items()]


class RunComparison:
    """The first run paired with each other one, while each run passes by once."""

    def __init__(self, ledger: Ledger, runs: Sequence[Run]) -> None:
        self._runs = runs
        #: By the other run's id: the pairs so far, or why there can be none.
        self._pairings: dict[str, Pairing | InputError] = {}
        for other in runs[1:]:
            try:
                refuse_incomparable(ledger, runs[0], other)
                self._pairings[other.run_id] = Pairing(runs[0], other)
            except InputError as trouble:
                self._pairings[other.run_id] = trouble
        self._wanted = any(isinstance(each, Pairing) for each in self._pairings.values())
        #: The first run's side of each question, and each kind of side once: there are few.
        self._sides: list[Side] = []
        self._kinds: dict[Side, Side] = {}

    def watching(self, run: Run, results: Results) -> Results:
        """`results` of `run`, each paired as it passes. The first run comes first."""
        if run is self._runs[0]:
            return self._noting(run, results) if self._wanted else results
        pairing = self._pairings[run.run_id]
        return self._pairing(pairing, results) if isinstance(pairing, Pairing) else results

    def _noting(self, run: Run, results: Results) -> Results:
        for question, verdict in results:
            mine = side(run, question, verdict)
            self._sides.append(self._kinds.setdefault(mine, mine))
            yield question, verdict

    def _pairing(self, pairing: Pairing, results: Results) -> Results:
        for of_a, (question, verdict) in zip(self._sides, results, strict=True):
            pairing.add(question, of_a, side(pairing.b, question, verdict))
            yield question, verdict

    def comparisons(self) -> list[Against]:
        """The first run beside each other one, in their order."""
        found = [_against(self._runs[0], other, self._pairings[other.run_id]) for other in self._runs[1:]]
        made = {at: each.found.p_value for at, each in enumerate(found) if each.found}
        if len(made) > 1:
            for at, together in zip(made, holm(list(made.values())), strict=True):
                found[at] = replace(found[at], together=together)
        return found


def _against(a: Run, b: Run, pairing: Pairing | InputError) -> Against:
    try:
        if isinstance(pairing, InputError):
            raise pairing
        return Against(a, b, pairing.comparison())
    except InputError as trouble:
        return Against(a, b, None, str(trouble))
