"""What of its source a run asks: kept with the run, and told beside its figures."""

from __future__ import annotations

from contract.ledger import Run, Taken
from producer.intake.selection import Selection
from producer.intake.survey import Survey
from producer.output import Lines, number

__all__ = ["taken_lines", "taken_of"]


def taken_of(found: Survey, selection: Selection) -> Taken:
    """What `selection` took of what the survey `found`."""
    how = found.source.how
    return Taken(
        subset=how.subset,
        split=how.split,
        subjects=tuple(sorted(selection.subjects)),
        limit=selection.limit,
        sample=selection.sample,
        seed=selection.seed if selection.sample else None,
        stratified=selection.stratified,
        rows=found.good,
        skipped=found.rejected,
        with_context=found.digest.with_context,
        repeated=found.digest.repeated(),
    )


def taken_lines(run: Run) -> Lines:
    """Which part of its source `run` asked; nothing where that was all of it, each question once."""
    told = _told(run) if run.taken else ""
    return [("taken", told)] if told else []


def _told(run: Run) -> str:
    taken = run.taken
    assert taken is not None
    parts = [f"{what} {name}" for what, name in (("subset", taken.subset), ("split", taken.split)) if name]
    if taken.subjects:
        parts.append(f"of {', '.join(taken.subjects)} only")
    if taken.limit == run.questions:
        parts.append(f"the first {run.questions:,}, nothing behind them was read")
    drawn = taken.sample == run.questions < taken.rows
    if drawn:
        how = ", each subject with its share" if taken.stratified else ""
        parts.append(f"{run.questions:,} at random (seed {taken.seed}){how}")
    if taken.subjects or drawn:
        parts.append(f"from {number(taken.rows, 'question')}")
    if taken.skipped:
        parts.append(f"without {number(taken.skipped, 'bad row')}")
    if taken.repeated:
        parts.append(f"{taken.repeated:,} that repeat others")
    return " · ".join(parts)
