"""Why questions failed, told where a run's figures are: the reason is the first thing that is asked for."""

from __future__ import annotations

from producer.output import Lines
from producer.stats.failures import Failures

__all__ = ["failed_lines"]

#: Characters of a message: the whole of it stands in the results, and in `show`.
MOST = 300


def failed_lines(run_id: str, failures: Failures) -> Lines:
    """Each kind of failure with its number and one example, the most frequent first, and what asks them anew."""
    if not failures.count:
        return []
    told = [
        f"{count:,} × {kind}, for example {_example(failures, kind)}" for kind, count in failures.count.most_common()
    ]
    anew = f"when that is mended, ask them anew: python -m producer requeue {run_id} --failed"
    return [("failed" if not at else "", line) for at, line in enumerate([*told, anew])]


def _example(failures: Failures, kind: str) -> str:
    question_id, message = failures.example[kind]
    line = " ".join(message.split())
    return f"{question_id}: {line if len(line) <= MOST else f'{line[:MOST]}…'}"
