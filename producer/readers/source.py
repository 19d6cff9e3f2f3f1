"""Where questions come from: a file, or standard input, which is kept in a temporary file to be read twice."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

__all__ = ["STDIN", "Source", "opened"]

#: The path that means standard input, in JSON Lines.
STDIN = "-"


@dataclass(frozen=True, slots=True)
class Source:
    """A question file and the name it goes by."""

    path: Path
    #: Its name in messages and in the run.
    shown: str

    @property
    def stem(self) -> str:
        """What a run of it is called after."""
        return Path(self.shown.strip("<>")).stem


@contextmanager
def opened(path: str) -> Iterator[Source]:
    """The source that `path` names; a copy of standard input lives as long as the context."""
    if path != STDIN:
        yield Source(Path(path), path)
        return
    with tempfile.NamedTemporaryFile(prefix="mcqueue-", suffix=".jsonl") as spool:
        shutil.copyfileobj(sys.stdin.buffer, spool)
        spool.flush()
        yield Source(Path(spool.name), "<stdin>")
