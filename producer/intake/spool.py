"""Checked questions on their way from the file to the ledger: read once, kept on disk, so that memory stays flat."""

from __future__ import annotations

import tempfile
import weakref
from collections.abc import Iterator
from contextlib import suppress
from typing import IO

from contract.question import Body
from producer.temporary import no_room

__all__ = ["Spool"]

WHAT = "the checked questions"


class Spool:
    """Bodies in the order in which they came, in a temporary file that goes with the object.

    Raises InputError, now or later, where there is no room for one.
    """

    def __init__(self) -> None:
        try:
            self._file = tempfile.TemporaryFile(prefix="mcqueue-")  # noqa: SIM115 - it lives as long as the object
        except OSError as trouble:
            raise no_room(WHAT, trouble) from None
        weakref.finalize(self, _forget, self._file)

    def add(self, body: Body) -> None:
        """Keep one more."""
        try:
            # An id has no control characters, JSON no line ends: tab and newline part what no question can hold.
            self._file.write(b"%b\t%b\n" % (body.question_id.encode(), body.canonical))
        except OSError as trouble:
            raise no_room(WHAT, trouble) from None

    def __iter__(self) -> Iterator[Body]:
        """Every body, from the first on; one reader at a time."""
        try:
            self._file.seek(0)
        except OSError as trouble:  # of what was not written yet
            raise no_room(WHAT, trouble) from None
        for line in self._file:
            question_id, _, canonical = line.rstrip(b"\n").partition(b"\t")
            yield Body(question_id.decode(), canonical)


def _forget(file: IO[bytes]) -> None:
    """Where there was no room, what is still buffered has none now either, and nobody wants it any more."""
    with suppress(OSError):
        file.close()
