"""What an export format is: something that opens its files and takes one question after the other."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

from contract.ledger import Run
from contract.question import Question
from contract.verdict import Verdict
from producer.files import Drafts

__all__ = ["Format", "Sink"]


@dataclass(frozen=True, slots=True)
class Sink:
    """Where the questions go, in the input's order, each with its verdict or None while it is unsettled."""

    files: tuple[Path, ...]
    write: Callable[[Question, Verdict | None], object]
    #: What the reader of the files must know of them, complete when the format's block has ended.
    remarks: list[str] = field(default_factory=list)


#: Given the folder of the run: a block in which the questions are written, and at whose end the files are complete.
Format = Callable[[Drafts, Path, Run], AbstractContextManager[Sink]]
