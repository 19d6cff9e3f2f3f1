"""Output lines on why questions failed, shown with a run's figures."""

from __future__ import annotations

from collections.abc import Iterator

from contract.ledger import Run
from producer.output import Lines, labelled
from producer.stats.failures import Failures

__all__ = ["failed_lines", "retry"]

#: Characters shown of an error message; the results and `show` have all of it.
MOST = 300


def retry(run: Run) -> str:
    """Return the commands that ask the failed questions of `run` again."""
    if old := run.spec.rescored_from:  # no worker asks it anything
        again = f"requeue {old} --failed, and once it has settled: python -m workers rescore {old}"
        return f"python -m producer {again} (if {old} was purged, enqueue its questions again instead)"
    return f"python -m producer requeue {run.run_id} --failed"


def failed_lines(run: Run, failures: Failures) -> Lines:
    """Return each kind of failure with its count and examples, most frequent first, and how to retry them."""
    if not failures.count:
        return []
    kinds = [line for kind, count in failures.count.most_common() for line in _kind(failures, kind, count)]
    return labelled("failed", [*kinds, f"once that is fixed, retry with: {retry(run)}"])


def _kind(failures: Failures, kind: str, count: int) -> Iterator[str]:
    first, *others = (f"{question}: {_shown(message)}" for question, message in failures.examples[kind].values())
    yield f"{count:,} × {kind}, for example {first}"
    yield from (f"also for example {each}" for each in others)


def _shown(message: str) -> str:
    line = " ".join(message.split())
    return line if len(line) <= MOST else f"{line[:MOST]}…"
