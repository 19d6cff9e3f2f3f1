"""Why questions failed, told where a run's figures are: the reason is the first thing that is asked for."""

from __future__ import annotations

from collections import Counter

from contract.ledger import Ledger, Run
from contract.verdict import Outcome
from producer.present import Lines

__all__ = ["failed_lines"]

#: Characters of a message: the whole of it stands in the results, and in `show`.
MOST = 300


def failed_lines(ledger: Ledger, run: Run) -> Lines:
    """Each kind of failure with its number and one example, the most frequent first, and what asks them anew."""
    count: Counter[str] = Counter()
    example: dict[str, str] = {}
    for question, verdict in ledger.results(run.run_id):
        if verdict is not None and verdict.outcome is Outcome.FAILED and verdict.error is not None:
            kind = verdict.error.type
            count[kind] += 1
            example.setdefault(kind, f"{question.id}: {_short(verdict.error.message)}")
    if not count:
        return []
    told = [f"{number:,} × {kind}, for example {example[kind]}" for kind, number in count.most_common()]
    anew = f"when that is mended, ask them anew: python -m producer requeue {run.run_id} --failed"
    return [("failed" if not at else "", line) for at, line in enumerate([*told, anew])]


def _short(message: str) -> str:
    line = " ".join(message.split())
    return line if len(line) <= MOST else f"{line[:MOST]}…"
