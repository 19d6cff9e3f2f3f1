"""Temporary files for what may be larger than memory."""

from __future__ import annotations

import sqlite3
import tempfile
import weakref
from collections.abc import Iterable
from contextlib import suppress
from typing import IO

from contract.errors import InputError

__all__ = ["Scratch", "forget", "no_room"]


class Scratch:
    """A temporary file that is deleted with the object.

    All methods raise InputError, which says that `what` cannot be stored, if there is no disk space.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        try:
            self._file = tempfile.TemporaryFile(prefix="mcqueue-")  # noqa: SIM115 - open as long as the object lives
        except OSError as trouble:
            raise no_room(what, trouble) from None
        weakref.finalize(self, forget, self._file)

    def append(self, pieces: Iterable[bytes]) -> None:
        """Add to the end."""
        try:
            self._file.writelines(pieces)
        except OSError as trouble:
            raise no_room(self._what, trouble) from None

    def from_start(self) -> IO[bytes]:
        """Return the file, at its beginning, for one reader at a time; read it to the end before adding more."""
        try:
            self._file.seek(0)
        except OSError as trouble:  # while flushing what was still buffered
            raise no_room(self._what, trouble) from None
        return self._file


def forget(file: IO[bytes]) -> None:
    """Close the file, ignoring errors: if the disk is full, flushing fails, but the content is no longer needed."""
    with suppress(OSError):
        file.close()


def no_room(what: str, trouble: OSError | sqlite3.Error) -> InputError:
    """Return an error that says why `what` cannot be stored in a temporary file."""
    why = trouble.strerror if isinstance(trouble, OSError) else trouble
    message = f"{what} cannot be stored in a temporary file: {why}."
    return InputError(message, hint="Free some space, or set TMPDIR to another folder.")
