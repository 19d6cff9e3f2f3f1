"""Detects whether the engines that answered a run, or two compared runs, differ in ways that can change answers."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any

from contract.engine_info import describe_differences, differing
from contract.ledger import Ledger, Run
from producer.output import Lines

__all__ = ["Engines", "engine_lines"]

#: Engine properties that differ simply because the models differ.
OF_MODEL = frozenset({"model", "weights", "adapters"})
Differs = dict[str, list[str]]


def engine_lines(ledger: Ledger, run: Run) -> Lines:
    """Return a warning about the engines that answered the run; nothing if all were alike."""
    used = ledger.engines(run.run_id)
    if not (differs := differing(each.engine for each in used)):
        return []
    workers = ", ".join(dict.fromkeys(each.worker for each in used))
    return [
        ("engines", f"not identical: they differ in {describe_differences(differs)}"),
        ("", f"environment.answered_by in summary.json lists the engine of each of {workers} over time"),
    ]


@dataclass(frozen=True, slots=True)
class Engines:
    """Engine properties that can change an answer and differ between the engines of two runs.

    Each maps a property name to its values as JSON.
    """

    within_a: Differs = field(default_factory=dict)
    within_b: Differs = field(default_factory=dict)
    #: Further differences between the two runs, without those that follow from asking different models.
    across: Differs = field(default_factory=dict)

    @classmethod
    def of(cls, ledger: Ledger, a: Run, b: Run) -> Engines:
        """Return what differs in the engines of A and B."""
        of_a, of_b = ([each.engine for each in ledger.engines(run.run_id)] for run in (a, b))
        within_a, within_b = differing(of_a), differing(of_b)
        explained = OF_MODEL if a.spec.model != b.spec.model else frozenset()
        across = {
            name: values
            for name, values in differing([*of_a, *of_b]).items()
            if name not in explained and set(values) not in (set(within_a.get(name, ())), set(within_b.get(name, ())))
        }
        return cls(within_a, within_b, across)

    def lines(self) -> Lines:
        """Return the differences as output lines; nothing if all engines were alike."""
        places = {"of A": self.within_a, "of B": self.within_b, "of A and B": self.across}
        found = [
            f"{where} not identical: they differ in {describe_differences(values)}"
            for where, values in places.items()
            if values
        ]
        return [("engines", "\n".join(found))] if found else []

    def to_json(self) -> dict[str, Any]:
        """Return the content for `--json`."""
        return {
            where: {name: [json.loads(each) for each in values] for name, values in differs.items()}
            for where, differs in asdict(self).items()
        }
