"""Result files, each whole or not at all."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import IO, Any, BinaryIO, Self, TextIO, cast

from contract.errors import InputError

__all__ = ["Drafts", "explaining", "refuse_unwritable", "replacing"]

#: What a file system without room refuses, where an empty file still fits.
TRIED_BYTES = 4096


class Drafts:
    """Files that take their places together once all of them are complete, and vanish if the block fails.

    Nothing is renamed before everything is on the disk, so that files of one export never are of two.
    """

    def __init__(self) -> None:
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
        draft = path.with_name(f".{path.name}.{os.getpid()}")
        file: IO[Any] = draft.open(mode, **how)  # type: ignore[call-overload]
        self._opened.append((draft, path, file))
        return file

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, trouble: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if trouble is None:
                self._take_their_places()
        finally:
            for draft, _, file in self._opened:
                _let_go(file)
                draft.unlink(missing_ok=True)

    def _take_their_places(self) -> None:
        for _, _, file in self._opened:
            file.flush()
            os.fsync(file.fileno())
            file.close()
        for _, path, _ in self._opened:
            _refuse_folder(path)
        for draft, path, _ in self._opened:
            draft.replace(path)


def _refuse_folder(path: Path) -> None:
    """Raise IsADirectoryError where a file could not take the place of `path`: the others would have, by then."""
    if path.is_dir() and not path.is_symlink():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))


def _let_go(file: IO[Any]) -> None:
    try:
        file.close()
    except OSError:
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
    return "Make room"


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
