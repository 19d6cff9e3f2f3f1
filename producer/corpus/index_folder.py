"""Building an index folder next to its final path and moving it there when complete, keeping the one it replaces."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import click

from contract.commands import INTERRUPTED, note
from contract.errors import IndexUnreadable, IndexUnusable, InputError
from contract.held import abandoned, hold
from contract.index import MANIFEST, PASSAGES, read_manifest, replaced_beside
from producer.drafts import alone_in, hidden_beside, leftovers

__all__ = ["refuse_foreign", "unfinished"]

#: Suffixes of a folder that will take the place of an index, and of one that is giving it up.
UNFINISHED = ".unfinished"
OUTGOING = ".outgoing"
_ANOTHER = "Name another folder with -o."


def refuse_foreign(out: Path, corpus: Path, *, force: bool) -> None:
    """Raise InputError if `out` is neither empty nor an index: anything else is only deleted with `force`.

    Raise it as well if `corpus` is in there, or is that folder: it would be deleted with it.
    """
    if out.is_file():
        raise InputError(f"{out} is a file, expected a folder.", hint=_ANOTHER)
    if corpus.exists() and corpus.resolve().is_relative_to(out.resolve()):
        raise InputError(f"{out} has the corpus, {corpus}, which the index would replace.", hint=_ANOTHER)
    if out.is_dir() and any(out.iterdir()) and not _is_index(out) and not force:
        raise InputError(
            f"{out} is not empty and not an index.",
            hint="Name another folder with -o; --force deletes the contents of this one.",
        )


def _is_index(folder: Path) -> bool:
    """Whether this is an index, of whatever version, even a damaged one. Other programs have a `manifest.json`, too."""
    return (folder / MANIFEST).is_file() and (folder / PASSAGES).is_file()


@contextmanager
def unfinished(out: Path) -> Iterator[Path]:
    """Yield a folder next to `out` that replaces it at the end of the block, or is deleted if the block fails.

    Raises InputError for errors of the file system; Ctrl-C ends the command with the corresponding exit code.
    """
    place = out.resolve()
    try:
        with _draft(place) as folder:
            yield folder
            _take_place(folder, place)
    except KeyboardInterrupt:
        note(f"interrupted; {out} is unchanged")
        raise click.exceptions.Exit(INTERRUPTED) from None
    except OSError as trouble:
        raise InputError(
            f"{trouble.filename or out}: {trouble.strerror}.", hint="Check the path, permissions and disk space."
        ) from None


@contextmanager
def _draft(place: Path) -> Iterator[Path]:
    """Yield a new folder next to `place`. It is deleted at the end, or by the next command if this one is killed."""
    place.parent.mkdir(parents=True, exist_ok=True)
    _sweep(place)
    while True:
        # Not tempfile.mkdtemp: only its owner could read the index.
        folder = hidden_beside(place, UNFINISHED)
        folder.mkdir()
        with suppress(FileNotFoundError):  # swept before it was held
            lock = os.open(folder, os.O_RDONLY)
            if hold(lock, folder):
                break
            os.close(lock)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def _sweep(place: Path) -> None:
    """Clear up what killed commands left next to `place`: unfinished folders that are not locked are deleted, and an
    index that was being replaced gets back its place, or one beside the new index."""
    with alone_in(place.parent) as alone:
        for left in leftovers(place, UNFINISHED):
            with suppress(OSError), abandoned(left):
                shutil.rmtree(left, ignore_errors=True)
        for left in leftovers(place, OUTGOING) if alone else ():
            with suppress(OSError):
                if place.exists():
                    _put_beside(left, place)
                else:
                    left.rename(place)


def _take_place(folder: Path, place: Path) -> None:
    """Rename `folder` to `place`; the previous folder is kept next to it, and restored if the renaming fails.

    Until the next build, workers find the previous index there, for the runs that were made for it.
    """
    with alone_in(place.parent):
        if not place.exists():
            folder.rename(place)
            return
        outgoing = hidden_beside(place, OUTGOING)
        place.rename(outgoing)
        try:
            folder.rename(place)
        except BaseException:
            outgoing.rename(place)
            raise
        try:
            _put_beside(outgoing, place)
        except OSError as trouble:
            kept = replaced_beside(place).name
            raise InputError(
                f"{place} is the new index, but the one before it cannot be renamed to {kept}: {trouble.strerror}.",
                hint=f"{outgoing.name} is moved there by the next build.",
            ) from None


def _put_beside(outgoing: Path, place: Path) -> None:
    """Keep the previous folder `outgoing` next to the new one if a run may need it; otherwise delete it."""
    if _differ(outgoing, place):
        shutil.rmtree(replaced_beside(place), ignore_errors=True)
        outgoing.rename(replaced_beside(place))
    else:
        shutil.rmtree(outgoing, ignore_errors=True)


def _differ(old: Path, new: Path) -> bool:
    """Whether a run may need `old` because `new` has other contents, or because that cannot be known now."""
    try:
        return read_manifest(old).digest != read_manifest(new).digest
    except IndexUnreadable:
        return True
    except IndexUnusable:
        return False
