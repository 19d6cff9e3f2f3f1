"""`rejected.jsonl`: the rows of a question file that a run skipped, for whoever wants to correct them."""

from __future__ import annotations

from pathlib import Path

from producer.export.files import replacing
from producer.intake.bad_rows import write_rejected_row
from producer.intake.survey import Survey, rejected_rows

__all__ = ["write_rejected"]


def write_rejected(found: Survey, directory: Path) -> Path | None:
    """Write the skipped rows to `directory`/rejected.jsonl; None if there are none. Raises InputError if that fails."""
    if not found.troubles.count:
        return None
    path = directory / "rejected.jsonl"
    with replacing(path) as file:
        for row in rejected_rows(found):
            write_rejected_row(file, row)
    return path
