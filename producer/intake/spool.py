"""Storing checked questions on disk between the file and the ledger, so that memory stays bounded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from contract.question import Body
from producer.temporary import Scratch

__all__ = ["Spool"]


class Spool:
    """Bodies in insertion order, in a temporary file.

    Creating, adding and iterating raise InputError if there is no disk space.
    """

    def __init__(self) -> None:
        self._file = Scratch("the checked questions")

    def add(self, bodies: Iterable[Body]) -> None:
        """Append bodies."""
        # Ids have no control characters and JSON no line ends, so tab and newline are safe as separators.
        self._file.append(b"%b\t%b\n" % (each.question_id.encode(), each.canonical) for each in bodies)

    def __iter__(self) -> Iterator[Body]:
        """Yield all bodies from the beginning; only one iteration at a time."""
        for line in self._file.from_start():
            question_id, _, canonical = line.rstrip(b"\n").partition(b"\t")
            yield Body(question_id.decode(), canonical)
