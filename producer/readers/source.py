"""The source of questions: a file. Standard input and pipes are copied to a temporary one, to be read twice."""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from contract.errors import InputError
from producer.readers.stream import explaining
from producer.temporary import forget, no_room

__all__ = ["STDIN", "HowToRead", "Source", "opened"]

#: The path that stands for standard input.
STDIN = "-"
#: The prefix of a path that names a dataset on the hub.
HUB = "hf:"
#: What a shell passes for `<(zcat …)`; the number says nothing, and may be another one next time.
_DESCRIPTOR = re.compile(r"/(?:dev|proc/(?:self|\d+))/fd/\d+")


@dataclass(frozen=True, slots=True)
class HowToRead:
    """The user's reading options, which override what would otherwise be detected from the content."""

    layout: str = ""
    #: Part of a question → the field that holds it.
    mapping: Mapping[str, str] = field(default_factory=dict)
    encoding: str = ""
    #: The requested subset: a list in a JSON file, files of a folder or zip, or a configuration of a dataset.
    subset: str = ""
    #: The requested split of a dataset or folder.
    split: str = ""
    #: A separate file with one answer per line.
    answers: Path | None = None

    @property
    def names_answers(self) -> bool:
        """Whether the user says where the answers are, or that there are none."""
        return self.answers is not None or "answer" in self.mapping


@dataclass(frozen=True, slots=True)
class Source:
    """A question file and its display name."""

    path: Path
    #: Its name in messages and in the run.
    shown: str
    how: HowToRead = HowToRead()
    #: The member of a zip to read; empty for its only file.
    member: str = ""

    @property
    def title(self) -> str:
        """The display name, followed by the requested subset and split."""
        parts = [f"{what} {part}" for what, part in (("subset", self.how.subset), ("split", self.how.split)) if part]
        return ", ".join((self.shown, *parts))

    @property
    def hub_name(self) -> str:
        """The dataset's name on the hub for `hf:owner/name`, otherwise an empty string."""
        return self.shown.removeprefix(HUB) if self.shown.startswith(HUB) else ""

    @property
    def stem(self) -> str:
        """The base name for a run over this source: the same whenever the same command is repeated."""
        if _DESCRIPTOR.fullmatch(self.shown):
            return "pipe"
        name = Path(self.shown.strip("<>").removeprefix(HUB)).name or self.path.resolve().name
        base = name.split(".")[0] or name
        return "-".join(filter(None, (base, self.how.subset, self.how.split)))


@contextmanager
def opened(path: str, how: HowToRead | None = None) -> Iterator[Source]:
    """Yield the source that `path` names; a copy of standard input or of a pipe is deleted when the context ends.

    Raises InputError for an empty path, and if there is no disk space for the copy, QuestionFileError if a pipe cannot
    be read.
    """
    if not path:  # of an unset variable: it would be the current folder
        raise InputError("The name of the question file is empty.", hint="Name a file, a folder or a dataset.")
    how = how or HowToRead()
    with ExitStack() as stack:
        if path == STDIN:
            yield Source(stack.enter_context(_copied(sys.stdin.buffer, "standard input")), "<stdin>", how)
            return
        with explaining(path):
            # What `enqueue <(zcat …)` passes: its content is there only once.
            pipe = stack.enter_context(Path(path).open("rb")) if Path(path).is_fifo() else None
        yield Source(stack.enter_context(_copied(pipe, path)) if pipe else Path(path), path, how)


@contextmanager
def _copied(file: IO[bytes], what: str) -> Iterator[Path]:
    """Yield the path of a temporary file with the content of `file`. Raises InputError if there is no space."""
    with ExitStack() as stack:
        try:
            copy = tempfile.NamedTemporaryFile(prefix="mcqueue-")  # noqa: SIM115 - closed by the stack
            stack.callback(forget, copy)
            shutil.copyfileobj(file, copy)
            copy.flush()
        except OSError as trouble:
            stack.close()
            raise no_room(what, trouble) from None
        yield Path(copy.name)
