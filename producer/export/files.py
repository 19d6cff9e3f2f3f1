"""Result files, each whole or not at all."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, BinaryIO, Self, TextIO, cast

from contract.errors import InputError

__all__ = ["Drafts", "explaining", "refuse_unwritable", "replacing"]

#: What a full disk, a quota and a limit on files say.
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
#: What a file system without room refuses, where an empty file still fits.
TRIED_BYTES = 4096


class Drafts:
    """Files that take their places together once all of them are complete, and vanish if the block fails.

    Nothing is renamed before everything is on the disk. Renames themselves can fail or be cut short, too, and no file
    system does several in one step: the `seal`, one of the files, is put away before the first and comes last, so that
    where it stands, the others are of its export.
    """

    def __init__(self, seal: Path | None = None) -> None:
        self._seal = seal
        self._opened: list[tuple[Path, Path, IO[Any]]] = []

    def text(self, path: Path) -> TextIO:
        """A draft of `path`, for UTF-8."""
        return cast(TextIO, self._draft(path, "w", encoding="utf-8", newline=""))

    def binary(self, path: Path) -> BinaryIO:
        """A draft of `path`, for bytes."""
        return cast(BinaryIO, self._draft(path, "wb"))

    def _draft(self, path: Path, mode: str, **how: str) -> IO[Any]:
        _refuse_folder(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        _sweep(path)
        draft = path.with_name(f".{path.name}.{os.getpid()}")
        while True:
            file: IO[Any] = draft.open(mode, **how)  # type: ignore[call-overload]
            if _held(file, draft):
                break
            file.close()
        self._opened.append((draft, path, file))
        return file

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_rest: object) -> None:
        try:
            if kind is None:
                self._take_their_places()
        finally:
            for draft, _, file in self._opened:
                _let_go(file)
                with suppress(OSError):  # the next export sweeps it; what went wrong before is what is to be told
                    draft.unlink(missing_ok=True)

    def _take_their_places(self) -> None:
        for _, _, file in self._opened:
            file.flush()
            os.fsync(file.fileno())
        for _, path, _ in self._opened:
            _refuse_folder(path)
        # None is closed before: what nobody holds is swept.
        if self._seal is None:
            self._replace()
            return
        with _alone_in(self._seal.parent):
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


@contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """One process at a time puts files into `folder`, where its file system has locks."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:  # one that takes files and shows none
        yield
        return
    try:
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _put_away(seal: Path) -> Path:
    """Give the old seal, where there is one, another name, which is returned."""
    away = seal.with_name(f".{seal.name}.{os.getpid()}.old")
    with suppress(FileNotFoundError):
        seal.replace(away)
        _settle({seal.parent})
    return away


def _put_back(away: Path, seal: Path) -> bool:
    """Whether all is as it was."""
    try:
        if os.path.lexists(away):
            away.replace(seal)
    except OSError:
        return False
    return True


def _half_done(seal: Path, moved: list[str], trouble: OSError) -> InputError:
    done = f"only {', '.join(moved)} could" if moved else "none could"
    return InputError(
        f"{seal.parent}: of the results {done} take the place of the older file: {trouble.strerror}. "
        f"There is no {seal.name} until all files are of one export.",
        hint="Mend that and repeat the command, or choose another folder with --out.",
    )


def _settle(folders: set[Path]) -> None:
    """See to it that the names in `folders` outlast a loss of power, as far as their file systems promise that."""
    for folder in folders:
        with suppress(OSError):
            descriptor = os.open(folder, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)


def _held(file: IO[Any], draft: Path) -> bool:
    """Hold a draft, so that nobody sweeps it; False where somebody was faster. Without locks nobody sweeps either."""
    with suppress(OSError):
        fcntl.flock(file.fileno(), fcntl.LOCK_EX)
    try:
        return os.path.samestat(os.fstat(file.fileno()), draft.stat())
    except FileNotFoundError:
        return False


def _sweep(path: Path) -> None:
    """Remove the drafts of `path` that killed processes left: those that nobody holds."""
    ours = re.compile(rf"\.{re.escape(path.name)}\.\d+(\.old)?")
    with suppress(OSError):
        for left in filter(lambda each: ours.fullmatch(each.name), list(path.parent.iterdir())):
            with suppress(OSError), left.open("rb") as file:
                fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
                left.unlink()


def _refuse_folder(path: Path) -> None:
    """Raise IsADirectoryError where a file could not take the place of `path`: the others would have, by then."""
    if path.is_dir() and not path.is_symlink():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))


def _let_go(file: IO[Any]) -> None:
    try:
        file.close()
    except OSError:
        with suppress(OSError):
            file.close()  # the first call could not write out what was buffered; now nothing is


@contextmanager
def replacing(path: Path) -> Iterator[TextIO]:
    """A text file that takes the place of `path` if the block ends well, and vanishes if not."""
    with Drafts() as drafts:
        yield drafts.text(path)


@contextmanager
def explaining(directory: Path) -> Iterator[None]:
    """Raise what the file system says while results are written as InputError."""
    try:
        yield
    except OSError as trouble:
        raise InputError(
            f"{directory}: the results cannot be written: {trouble.strerror}; older files there are unchanged.",
            hint=f"{_remedy(trouble)} or choose another folder with --out.",
        ) from None


def _remedy(trouble: OSError) -> str:
    if isinstance(trouble, PermissionError):
        # A container's user is 1000, and whose folder it writes into is often another (compose.yaml: HOST_UID).
        return f"Let user {os.geteuid()} write there (containers: HOST_UID, in compose.yaml)"
    if isinstance(trouble, FileExistsError | NotADirectoryError | IsADirectoryError):
        return f"Move {trouble.filename2 or trouble.filename} out of the way"
    return "Make room" if trouble.errno in _NO_ROOM else "Mend that"


def refuse_unwritable(directory: Path) -> None:
    """Raise InputError if results could not be written into `directory` now, so that nobody learns it after hours.

    A file is written into it, or into the nearest folder above it that is there, and is gone again at once.
    """
    there = next(each for each in (directory, *directory.absolute().parents) if os.path.lexists(each))
    with explaining(directory):
        if not there.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(there))
        with tempfile.TemporaryFile(buffering=0, dir=there) as tried:
            tried.write(bytes(TRIED_BYTES))
