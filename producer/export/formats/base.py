"""Interface of an export format: it opens its files and receives the questions part by part."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from contract.ledger import Run
from producer.export.files import Drafts
from producer.export.parts import PieceOf

__all__ = ["Format", "Sink"]


@dataclass(frozen=True, slots=True)
class Sink:
    """Destination of the questions, in input order."""

    files: tuple[Path, ...]
    #: Converts a part into the argument of `write`. It may run in another process, so it must not have side effects.
    piece_of: PieceOf
    #: Called in the order of the parts.
    write: Callable[[Any], object]
    #: Notes that a reader of the files should know, complete at the end of the format's block.
    remarks: list[str] = field(default_factory=list)


#: Returns a context manager in which the questions are written to the run's folder; the files are complete at its end.
Format = Callable[[Drafts, Path, Run], AbstractContextManager[Sink]]
