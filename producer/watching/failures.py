"""Output lines on why questions failed, shown with a run's figures."""

from __future__ import annotations

from producer.output import Lines, labelled
from producer.stats.failures import Failures

__all__ = ["failed_lines"]

#: Characters shown of an error message; the results and `show` have all of it.
MOST = 300


def failed_lines(run_id: str, failures: Failures) -> Lines:
    """Return each kind of failure with its count and one example, most frequent first, and how to retry them."""
    if not failures.count:
        return []
    kinds = [
        f"{count:,} × {kind}, for example {_example(failures, kind)}" for kind, count in failures.count.most_common()
    ]
    retry = f"once that is fixed, retry with: python -m producer requeue {run_id} --failed"
    return labelled("failed", [*kinds, retry])


def _example(failures: Failures, kind: str) -> str:
    question_id, message = failures.example[kind]
    line = " ".join(message.split())
    return f"{question_id}: {line if len(line) <= MOST else f'{line[:MOST]}…'}"
