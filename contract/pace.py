"""How fast a worker is, and how full its batches are, from its last records. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from contract.fleet import WorkerRecord

__all__ = ["fill", "pace", "remembered"]

#: Window for a worker's pace. Batches may take long: over a shorter one, a busy worker would seem idle in between.
PACE_OVER_S = 20.0


def remembered(seen: Sequence[WorkerRecord], record: WorkerRecord) -> Sequence[WorkerRecord]:
    """Return `seen` with `record` of the same worker appended, without records too old for the pace; oldest first."""
    if seen and (seen[-1].owner != record.owner or seen[-1].seen_at > record.seen_at):
        return (record,)  # another process of this name, or the host's clock was set back
    if seen and seen[-1].seen_at == record.seen_at:
        return seen
    begin = max((at for at, each in enumerate(seen) if record.seen_at - each.seen_at >= PACE_OVER_S), default=0)
    return (*seen[begin:], record)


def pace(seen: Sequence[WorkerRecord]) -> float | None:
    """Return the worker's questions per second over its last records; None if unknown yet."""
    elapsed_s = seen[-1].seen_at - seen[0].seen_at
    return (seen[-1].done - seen[0].done) / elapsed_s if elapsed_s > 0 else None


def fill(seen: Sequence[WorkerRecord]) -> float | None:
    """Return the mean fill of its batches as a share of `batch_size`: of the recent ones or, if there are none, of all.

    None before its first batch.
    """
    first, last = seen[0], seen[-1]
    begun = last.begun - first.begun
    batches, questions = (last.batches - first.batches, begun) if begun else (last.batches, last.begun)
    return questions / (batches * last.batch_size) if batches and questions and last.batch_size else None
