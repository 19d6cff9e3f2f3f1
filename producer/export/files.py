"""Atomic writing of result files."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, BinaryIO, Self, TextIO, cast

from contract.commands import NO_ROOM
from contract.errors import InputError
from contract.held import abandoned, hold
from producer.drafts import alone_in, hidden_beside, leftovers

__all__ = ["Drafts", "explaining", "refuse_unwritable", "replacing"]

#: Size of a test file that a full file system refuses, although an empty file might still fit.
TRIED_BYTES = 4096


class Drafts:
    """Draft files that are renamed into place together once all are complete, and deleted if the block fails.

    Nothing is renamed before everything is on disk. Renames can also fail or be interrupted, and no file system
    performs several atomically: the old `seal`, one of the files, is moved away before the first rename and the new one
    comes last, so that wherever a seal exists, the other files belong to the same export.
    """

    def __init__(self, seal: Path | None = None) -> None:
        self._seal = seal
        self._opened: list[tuple[Path, Path, IO[Any]]] = []

    def text(self, path: Path) -> TextIO:
        """Open a draft of `path` for UTF-8 text."""
        return cast(TextIO, self._draft(path, "x", encoding="utf-8", newline=""))

    def binary(self, path: Path) -> BinaryIO:
        """Open a draft of `path` for bytes."""
        return cast(BinaryIO, self._draft(path, "xb"))

    def _draft(self, path: Path, mode: str, **how: str) -> IO[Any]:
        _refuse_folder(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        _sweep(path)
        while True:
            draft = hidden_beside(path)
            file: IO[Any] = draft.open(mode, **how)  # type: ignore[call-overload]
            if hold(file.fileno(), draft):  # else it was swept already
                break
            file.close()
        self._opened.append((draft, path, file))
        return file

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_rest: object) -> None:
        try:
            if kind is None:
                self._commit()
        finally:
            for draft, _, file in self._opened:
                _let_go(file)
                with suppress(OSError):  # the next export removes it; the original error is the one to report
                    draft.unlink(missing_ok=True)

    def _commit(self) -> None:
        for _, _, file in self._opened:
            file.flush()
            os.fsync(file.fileno())
        for _, path, _ in self._opened:
            _refuse_folder(path)
        # Files stay open until the end: drafts without a lock are swept.
        if self._seal is None:
            self._replace()
            return
        with alone_in(self._seal.parent) as alone:
            if alone:
                _sweep_seals(self._seal)
            away = _put_away(self._seal)
            try:
                self._replace()
            except BaseException as trouble:
                moved = [path.name for draft, path, _ in self._opened if not os.path.lexists(draft)]
                back = not moved and _put_back(away, self._seal)
                if isinstance(trouble, OSError) and not back:
                    raise _half_done(self._seal, moved, trouble) from None
                raise
            finally:
                with suppress(OSError):
                    away.unlink(missing_ok=True)

    def _replace(self) -> None:
        for draft, path, _ in self._opened:
            if path != self._seal:
                draft.replace(path)
        for draft, path, _ in self._opened:
            if path == self._seal:
                _settle({each.parent for _, each, _ in self._opened})
                draft.replace(path)


def _put_away(seal: Path) -> Path:
    """Rename the old seal, if there is one; return its new name."""
    away = hidden_beside(seal, ".old")
    with suppress(FileNotFoundError):
        seal.replace(away)
        _settle({seal.parent})
    return away


def _put_back(away: Path, seal: Path) -> bool:
    """Restore the old seal; return whether everything is as it was before."""
    try:
        if os.path.lexists(away):
            away.replace(seal)
    except OSError:
        return False
    return True


def _half_done(seal: Path, moved: list[str], trouble: OSError) -> InputError:
    return InputError(
        f"{seal.parent}: not all older results could be replaced (replaced: {', '.join(moved) or 'none'}): "
        f"{trouble.strerror}. There is no {seal.name} until all files belong to the same export.",
        hint="Fix that and repeat the command, or choose another folder with --out.",
    )


def _settle(folders: set[Path]) -> None:
    """Sync `folders` so that their file names survive a power failure, as far as the file systems guarantee that."""
    for folder in folders:
        with suppress(OSError):
            descriptor = os.open(folder, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)


def _sweep(path: Path) -> None:
    """Remove the drafts of `path` left by killed processes: those that are not locked."""
    for left in leftovers(path):
        with suppress(OSError), abandoned(left):
            left.unlink()


def _sweep_seals(seal: Path) -> None:
    """Remove the old seals that killed processes put away; they have no lock, so the caller must be alone there."""
    for left in leftovers(seal, ".old"):
        with suppress(OSError):
            left.unlink()


def _refuse_folder(path: Path) -> None:
    """Raise IsADirectoryError if `path` is a folder, which a file cannot replace, before other files are renamed."""
    if path.is_dir() and not path.is_symlink():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))


def _let_go(file: IO[Any]) -> None:
    try:
        file.close()
    except OSError:
        with suppress(OSError):
            file.close()  # the first call failed to flush the buffer, which is now empty


@contextmanager
def replacing(path: Path) -> Iterator[TextIO]:
    """Open a text file that replaces `path` if the block succeeds, and is deleted if not. Raises InputError."""
    with explaining(path.parent), Drafts() as drafts:
        yield drafts.text(path)


@contextmanager
def explaining(directory: Path) -> Iterator[None]:
    """Convert file system errors while results are written into InputError."""
    try:
        yield
    except OSError as trouble:
        raise InputError(
            f"{directory}: the results cannot be written: {trouble.strerror}; existing files there are unchanged.",
            hint=f"{_remedy(trouble)} or choose another folder with --out.",
        ) from None


def _remedy(trouble: OSError) -> str:
    if isinstance(trouble, PermissionError):
        # A container runs as user 1000, while the mounted folder often belongs to another (compose.yaml: HOST_UID).
        return f"Give user {os.geteuid()} write permission there (containers: HOST_UID, in compose.yaml)"
    if isinstance(trouble, FileExistsError | NotADirectoryError | IsADirectoryError):
        return f"Move {_nearest_existing(Path(trouble.filename2 or trouble.filename))} out of the way"
    return "Free some space" if trouble.errno in NO_ROOM else "Fix that"


def _nearest_existing(path: Path) -> Path:
    return next(each for each in (path, *path.parents) if os.path.lexists(each))


def refuse_unwritable(directory: Path) -> None:
    """Raise InputError now, rather than after hours, if results cannot be written to `directory`.

    A temporary file is written to it, or to its nearest existing parent folder, and deleted at once.
    """
    there = _nearest_existing(directory)
    with explaining(directory):
        if not there.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(there))
        with tempfile.TemporaryFile(buffering=0, dir=there) as tried:
            tried.write(bytes(TRIED_BYTES))
