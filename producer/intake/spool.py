"""Storing checked questions on disk between the file and the ledger, so that memory stays bounded."""

from __future__ import annotations

import tempfile
import weakref
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import IO

from contract.question import Body
from producer.temporary import no_room

__all__ = ["Spool"]

WHAT = "the checked questions"


class Spool:
    """Bodies in insertion order, in a temporary file that is deleted with the object.

    Creating, adding and iterating raise InputError if there is no disk space.
    """

    def __init__(self) -> None:
        try:
            self._file = tempfile.TemporaryFile(prefix="mcqueue-")  # noqa: SIM115 - open as long as the object lives
        except OSError as trouble:
            raise no_room(WHAT, trouble) from None
        weakref.finalize(self, _forget, self._file)

    def add(self, bodies: Iterable[Body]) -> None:
        """Append bodies."""
        try:
            # Ids have no control characters and JSON no line ends, so tab and newline are safe as separators.
            self._file.writelines(b"%b\t%b\n" % (each.question_id.encode(), each.canonical) for each in bodies)
        except OSError as trouble:
            raise no_room(WHAT, trouble) from None

    def __iter__(self) -> Iterator[Body]:
        """Yield all bodies from the beginning; only one iteration at a time."""
        try:
            self._file.seek(0)
        except OSError as trouble:  # while flushing what was still buffered
            raise no_room(WHAT, trouble) from None
        for line in self._file:
            question_id, _, canonical = line.rstrip(b"\n").partition(b"\t")
            yield Body(question_id.decode(), canonical)


def _forget(file: IO[bytes]) -> None:
    """Close the file, ignoring errors: if the disk is full, flushing fails, but the content is no longer needed."""
    with suppress(OSError):
        file.close()
