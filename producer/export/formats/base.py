"""What an export format is: something that opens its files and takes one part of the questions after the other."""

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
    """Where the questions go, in the input's order."""

    files: tuple[Path, ...]
    #: Makes of a part what `write` takes. Other processes may do it, so it leaves no trace in this one.
    piece_of: PieceOf
    #: Called in the order of the parts.
    write: Callable[[Any], object]
    #: What the reader of the files must know of them, complete when the format's block has ended.
    remarks: list[str] = field(default_factory=list)


#: Given the folder of the run: a block in which the questions are written, and at whose end the files are complete.
Format = Callable[[Drafts, Path, Run], AbstractContextManager[Sink]]
