"""Detecting repeated ids and questions, and repeated questions with different keys, in a file of any size.

Recent ids are in a dict, older ones in a temporary database on disk, so that memory stays bounded; of questions only
hashes are kept, older ones in a temporary file.
"""

from __future__ import annotations

import sqlite3
from array import array
from collections.abc import Callable, Iterator
from io import BytesIO
from typing import TYPE_CHECKING, NamedTuple

from contract.question import Question, substance
from producer.temporary import Scratch, no_room

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

__all__ = ["Place", "Repeats", "Seen", "asked_hash", "right_hash", "text_hash"]

#: Maximum number of ids in memory, about 4 MB; SQLite's cache takes another 2.
MOST_IN_MEMORY = 20_000
#: Size in bits (8 MiB) of a Bloom filter with one hash, by which most new ids are recognised without querying SQLite.
#: With a million ids, 0.7 % of the new ones are looked up needlessly on average; with ten million, 7 %.
FILTER_BITS = 1 << 26
#: Maximum number of questions whose hashes are in memory: 2 MB, of which sorting takes a few times as much.
MOST_PAIRS_IN_MEMORY = 1 << 17
#: Most passes over the file of hashes; beyond eight million questions, memory grows by a quarter of a byte for each.
MOST_GROUPS = 64
#: Size of what is read from that file at once: a multiple of a pair's 16 bytes.
BLOCK_BYTES = 1 << 20
#: The `right_hash` of a question without a key.
_NO_KEY = 0


class Place(NamedTuple):
    """Where a row is."""

    file: str
    line: int


class Seen:
    """Maps each id to the place where it first occurs, for one pass over the files of a set, one after the other."""

    def __init__(self) -> None:
        #: Id → the file's position in `_files`, and the line.
        self._recent: dict[str, tuple[int, int]] = {}
        self._files: list[str] = []
        self._older: sqlite3.Connection | None = None
        self._filter = bytearray()

    def place_of(self, question_id: str) -> Place | None:
        """Return the place of the first row with this id; None if the id is new."""
        found = self._recent.get(question_id)
        if found is None and self._older is not None and self._may_be_older(question_id):
            found = self._older.execute("SELECT file, line FROM seen WHERE id = ?", (question_id,)).fetchone()
        return Place(self._files[found[0]], found[1]) if found else None

    def _may_be_older(self, question_id: str) -> int:
        """Return nonzero if SQLite may have the id; 0 means that it certainly does not."""
        bit = hash(question_id) % FILTER_BITS
        return self._filter[bit >> 3] & 1 << (bit & 7)

    def add(self, question_id: str, line: int, file: str = "") -> None:
        """Remember a new id. Raises InputError if there is no disk space for it."""
        if not self._files or self._files[-1] != file:
            self._files.append(file)
        self._recent[question_id] = len(self._files) - 1, line
        if len(self._recent) >= MOST_IN_MEMORY:
            try:
                self._put_away()
            except sqlite3.Error as trouble:
                raise no_room("the ids of the questions", trouble) from None

    def _put_away(self) -> None:
        if self._older is None:
            # An empty name means a temporary file that is deleted on close, so journal and sync are unnecessary.
            self._older = sqlite3.connect("", isolation_level=None)
            self._older.execute("PRAGMA journal_mode = OFF")
            self._older.execute("PRAGMA synchronous = OFF")
            self._older.execute("CREATE TABLE seen (id TEXT PRIMARY KEY, file INTEGER, line INTEGER) WITHOUT ROWID")
            self._filter = bytearray(FILTER_BITS // 8)
        self._older.execute("BEGIN")
        rows = ((question_id, *place) for question_id, place in sorted(self._recent.items()))
        self._older.executemany("INSERT INTO seen VALUES (?, ?, ?)", rows)
        self._older.execute("COMMIT")
        for bit in (hash(question_id) % FILTER_BITS for question_id in self._recent):
            self._filter[bit >> 3] |= 1 << (bit & 7)
        self._recent.clear()

    def close(self) -> None:
        """Release the disk space."""
        if self._older is not None:
            self._older.close()


def asked_hash(question: Question) -> int:
    """Return a hash of what is asked: equal for repeated questions, in this process."""
    return hash((question.context, *substance(question.question, question.choices)))


def text_hash(question: Question) -> int:
    """Return a hash of the question's text, whatever its choices and context."""
    return hash(question.question)


def right_hash(question: Question) -> int:
    """Return a hash of the right choices' texts; 0 without a key."""
    return hash(frozenset(map(question.choice_text, question.right))) if question.answer else _NO_KEY


class Repeats:
    """Finds questions that repeat an earlier one, by a hash of each: by default word for word, regardless of their ids
    and the order of choices.

    All methods raise InputError if there is no disk space.
    """

    def __init__(self, hash_of: Callable[[Question], int] = asked_hash) -> None:
        self._hash_of = hash_of
        #: Two hashes per question, its own and that of what is right: 16 bytes, where a content hash as text would take
        #: about a hundred.
        self._recent = array("q")
        self._older: Scratch | None = None
        self._pairs = 0

    def add(self, question: Question) -> None:
        """Record the next question."""
        self._recent.append(self._hash_of(question))
        self._recent.append(right_hash(question))
        self._pairs += 1
        if self._pairs % MOST_PAIRS_IN_MEMORY == 0:
            self._older = self._older or Scratch("the hashes of the questions")
            self._older.append([self._recent.tobytes()])
            del self._recent[:]

    def count(self) -> int:
        """Return the number of repeated questions."""
        if self._older is None:
            return self._pairs - len(set(self._recent[::2]))
        import numpy  # late, as most commands read no questions

        found = 0
        for pairs in self._groups():
            hashes = numpy.sort(pairs[:, 0])
            found += int(numpy.count_nonzero(hashes[1:] == hashes[:-1]))
        return found

    def contradicted(self) -> set[int]:
        """Return the hash of each question that occurs with different keys."""
        if not self.count():
            return set()
        import numpy  # late, as most commands read no questions

        found: set[int] = set()
        for pairs in self._groups():
            keyed = pairs[pairs[:, 1] != _NO_KEY]
            asked, right = keyed[numpy.lexsort((keyed[:, 1], keyed[:, 0]))].T
            again = (asked[1:] == asked[:-1]) & (right[1:] != right[:-1])
            found.update(asked[1:][again].tolist())
        return found

    def _groups(self) -> Iterator[NDArray[numpy.int64]]:
        """Yield all pairs, of shape (pairs, 2), in groups of about as many as fit in memory.

        Equal questions are in the same group. Every group takes a pass over the file, so their number is limited.
        """
        import numpy  # late, as most commands read no questions

        groups = min(MOST_GROUPS, 1 + self._pairs // MOST_PAIRS_IN_MEMORY)
        for group in range(groups):
            yield numpy.concatenate([pairs[pairs[:, 0] % groups == group] for pairs in self._blocks()])

    def _blocks(self) -> Iterator[NDArray[numpy.int64]]:
        """Yield all pairs in order."""
        import numpy  # late, as most commands read no questions

        older = self._older.from_start() if self._older else BytesIO()
        while block := older.read(BLOCK_BYTES):
            yield numpy.frombuffer(block, numpy.int64).reshape(-1, 2)
        yield numpy.array(self._recent, numpy.int64).reshape(-1, 2)
