"""Whether a run, or two that are compared, were answered by engines that may say different things."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any

from contract.engine_info import differing, told
from contract.ledger import Ledger, Run
from producer.output import Lines

__all__ = ["Engines", "engine_lines"]

#: What differs in the engines of two models because the models do.
OF_MODEL = frozenset({"model", "weights", "adapters"})
Differs = dict[str, list[str]]


def engine_lines(ledger: Ledger, run: Run) -> Lines:
    """What a reader of the run's figures must know of who answered; nothing where all engines were alike."""
    used = ledger.engines(run.run_id)
    if not (differs := differing(each.engine for each in used)):
        return []
    workers = ", ".join(dict.fromkeys(each.worker for each in used))
    return [
        ("engines", f"not all alike: they differ in {told(differs)}"),
        ("", f"which of {workers} had which since when: environment.answered_by in summary.json"),
    ]


@dataclass(frozen=True, slots=True)
class Engines:
    """What can change an answer and was not the same in all engines that answered two runs: names, values as JSON."""

    within_a: Differs = field(default_factory=dict)
    within_b: Differs = field(default_factory=dict)
    #: Of one run against the other, besides; without what comes with the model where they asked two.
    across: Differs = field(default_factory=dict)

    @classmethod
    def of(cls, ledger: Ledger, a: Run, b: Run) -> Engines:
        """What differs in the engines of A and B."""
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
        """What differs, in words; nothing where all were alike."""
        places = {"of A": self.within_a, "of B": self.within_b, "of A and B": self.across}
        found = [f"{where} not all alike: they differ in {told(values)}" for where, values in places.items() if values]
        return [("engines", "\n".join(found))] if found else []

    def to_json(self) -> dict[str, Any]:
        """For `--json`."""
        return {
            where: {name: [json.loads(each) for each in values] for name, values in differs.items()}
            for where, differs in asdict(self).items()
        }
