"""The folder that becomes an index: built beside its place, put there whole, and what it replaces kept for its runs."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from contract.errors import IndexUnusable, InputError
from contract.index import MANIFEST, read_manifest, replaced_beside
from producer.options import INTERRUPTED, note

__all__ = ["refuse_foreign", "unfinished"]


def refuse_foreign(out: Path, *, force: bool) -> None:
    """Raise InputError where `out` is neither empty nor an index: nothing else is ours to delete, but with `force`."""
    if out.is_file():
        raise InputError(f"{out} is a file, expected a folder.", hint="Name another folder with -o.")
    if out.is_dir() and any(out.iterdir()) and not (out / MANIFEST).is_file() and not force:
        raise InputError(
            f"{out} holds something, and it is no index.",
            hint="Name another folder with -o; --force deletes what is in this one.",
        )


@contextmanager
def unfinished(out: Path) -> Iterator[Path]:
    """A folder beside `out` that takes its place when the block is done, and is gone when it fails.

    Raises InputError for what the file system refuses; after Ctrl-C the command ends with its exit code.
    """
    beside = out.resolve()
    folder = beside.with_name(f".{beside.name}.{os.getpid()}.unfinished")
    try:
        folder.mkdir(parents=True)
        yield folder
        _take_place(folder, beside)
    except KeyboardInterrupt:
        note(f"interrupted; {out} is as it was")
        raise click.exceptions.Exit(INTERRUPTED) from None
    except OSError as trouble:
        raise InputError(
            f"{trouble.filename or out}: {trouble.strerror}.", hint="Check path, rights and room."
        ) from None
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _take_place(folder: Path, place: Path) -> None:
    """Rename `folder` to `place`; what was there is kept beside it, and comes back if the new one cannot stand.

    Workers find it there for the runs that were made for it, until the next build.
    """
    if not place.exists():
        folder.rename(place)
        return
    outgoing = folder.with_suffix(".outgoing")
    place.rename(outgoing)
    try:
        folder.rename(place)
    except BaseException:
        outgoing.rename(place)
        raise
    if _differ(outgoing, place):
        shutil.rmtree(replaced_beside(place), ignore_errors=True)
        outgoing.rename(replaced_beside(place))
    else:
        shutil.rmtree(outgoing, ignore_errors=True)


def _differ(old: Path, new: Path) -> bool:
    """Whether a run may want `old`, which `new` cannot serve."""
    try:
        return read_manifest(old).digest != read_manifest(new).digest
    except IndexUnusable:
        return False
