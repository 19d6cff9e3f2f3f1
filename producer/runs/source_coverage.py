"""Records which part of its source a run asks, and describes it alongside the run's figures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from contract.ledger import Run, Taken
from contract.wording import number

if TYPE_CHECKING:  # commands that only show a run need no readers
    from producer.intake.selection import Selection
    from producer.intake.survey import Survey

__all__ = ["part_asked", "taken_of"]


def taken_of(found: Survey, selection: Selection) -> Taken:
    """Return which part of the surveyed source `selection` took."""
    how = found.source.how
    return Taken(
        subset=how.subset,
        split=how.split,
        subjects=tuple(sorted(selection.subjects)),
        limit=selection.limit if found.cut else None,
        sample=selection.sample,
        seed=selection.seed if selection.sample else None,
        stratified=selection.stratified,
        among=found.among,
        rows=found.good,
        skipped=found.troubles.count,
        with_context=found.digest.with_context,
        repeated=found.digest.repeats.count(),
    )


def part_asked(run: Run) -> str:
    """Describe which part of its source `run` asked; empty if it asked every question exactly once."""
    taken = run.taken
    if taken is None:
        return ""
    parts = [f"{what} {name}" for what, name in (("subset", taken.subset), ("split", taken.split)) if name]
    if taken.subjects:
        parts.append(f"only {', '.join(taken.subjects)}")
    if taken.limit == run.questions:
        parts.append(f"the first {run.questions:,}, the rest was not read")
    among = taken.rows if taken.among is None else taken.among
    drawn = taken.sample == run.questions < among
    if drawn:
        of = f" of {among:,}" if among < taken.rows else ""
        how = ", stratified by subject" if taken.stratified else ""
        parts.append(f"{run.questions:,}{of} at random (seed {taken.seed}){how}")
    if taken.subjects or drawn:
        parts.append(f"from {number(taken.rows, 'question')}")
    if taken.skipped:
        parts.append(f"without {number(taken.skipped, 'bad row')}")
    if taken.repeated:
        parts.append(f"{number(taken.repeated, 'duplicate')} included")
    return " · ".join(parts)
