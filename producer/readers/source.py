"""Where questions come from: a file, or standard input, which is kept in a temporary file to be read twice."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from producer.temporary import no_room

__all__ = ["STDIN", "HowToRead", "Source", "opened"]

#: The path that means standard input.
STDIN = "-"
#: What a path starts with that is the name of a dataset on the hub.
HUB = "hf:"


@dataclass(frozen=True, slots=True)
class HowToRead:
    """What the person says of a file that would otherwise be told from its content."""

    layout: str = ""
    #: Part of a question → the field that holds it.
    mapping: Mapping[str, str] = field(default_factory=dict)
    encoding: str = ""
    #: The subset wanted: of a JSON file with several, the files of a folder or zip, a configuration of a dataset.
    subset: str = ""
    #: The split wanted of a dataset or folder.
    split: str = ""
    #: A file with one answer per line.
    answers: Path | None = None


@dataclass(frozen=True, slots=True)
class Source:
    """A question file and the name it goes by."""

    path: Path
    #: Its name in messages and in the run.
    shown: str
    how: HowToRead = HowToRead()
    #: The file of a zip that is meant; empty: the only one.
    member: str = ""

    @property
    def title(self) -> str:
        """What was read: its name, and the part of it that was asked for."""
        parts = [f"{what} {part}" for what, part in (("subset", self.how.subset), ("split", self.how.split)) if part]
        return ", ".join((self.shown, *parts))

    @property
    def hub_name(self) -> str:
        """The dataset's name on the hub, for `hf:owner/name`; else an empty string."""
        return self.shown.removeprefix(HUB) if self.shown.startswith(HUB) else ""

    @property
    def stem(self) -> str:
        """What a run of it is called after."""
        name = Path(self.shown.strip("<>").removeprefix(HUB)).name or self.path.resolve().name
        base = name.split(".")[0] or name
        return "-".join(filter(None, (base, self.how.subset, self.how.split)))


@contextmanager
def opened(path: str, how: HowToRead | None = None) -> Iterator[Source]:
    """The source that `path` names; a copy of standard input lives as long as the context.

    Raises InputError where there is no room for that.
    """
    how = how or HowToRead()
    if path != STDIN:
        yield Source(Path(path), path, how)
        return
    with ExitStack() as stack:
        try:
            copy = tempfile.NamedTemporaryFile(prefix="mcqueue-")  # noqa: SIM115 - closed by the stack
            stack.callback(copy.close)
            shutil.copyfileobj(sys.stdin.buffer, copy)
            copy.flush()
        except OSError as trouble:
            with suppress(OSError):  # what is still buffered finds no room either
                stack.close()
            raise no_room("standard input", trouble) from None
        yield Source(Path(copy.name), "<stdin>", how)
