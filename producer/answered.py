"""Whether one engine answered a run, or several that may say different things."""

from __future__ import annotations

from contract.engines import differing, told
from contract.ledger import Ledger, Run
from producer.present import Lines

__all__ = ["engine_lines"]


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
