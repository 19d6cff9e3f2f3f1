"""`rejected.jsonl`: the rows of a question file that a run skipped, for whoever wants to correct them."""

from __future__ import annotations

from pathlib import Path

from producer.export.files import replacing
from producer.intake.bad_rows import rejected_line
from producer.intake.survey import Survey, rejected_rows
from producer.temporary import Scratch

__all__ = ["rejected_lines", "write_rejected"]


def rejected_lines(found: Survey) -> Scratch | None:
    """Return the skipped rows as lines of `rejected.jsonl`; None if there are none.

    They are read from the file again: to be called before the run is sent, as the file may be gone afterwards. Raises
    InputError.
    """
    if not found.troubles.count:
        return None
    lines = Scratch("the skipped rows")
    lines.append(rejected_line(row).encode("ascii") for row in rejected_rows(found))
    return lines


def write_rejected(lines: Scratch | None, directory: Path) -> Path | None:
    """Write `rejected_lines` to `directory`/rejected.jsonl; None without any. Raises InputError if that fails."""
    if lines is None:
        return None
    path = directory / "rejected.jsonl"
    with replacing(path) as file:
        file.writelines(line.decode("ascii") for line in lines.from_start())
    return path
