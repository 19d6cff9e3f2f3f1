"""Detecting repeated ids and questions, and repeated questions with different keys, in a file of any size.

Recent ids are in a dict, older ones in a temporary database on disk, so that memory stays bounded; of questions only
hashes are kept.
"""

from __future__ import annotations

import sqlite3
from array import array

from contract.question import Question, substance
from producer.temporary import no_room

__all__ = ["Repeats", "Seen", "asked_hash", "right_hash"]

#: Maximum number of ids in memory, about 3 MB; SQLite's cache takes at most 16 MB.
MOST_IN_MEMORY = 20_000
#: Size in bits (8 MiB) of a Bloom filter with one hash, by which most new ids are recognised without querying SQLite.
#: With a million ids, 0.7 % of the new ones are looked up needlessly on average; with ten million, 7 %.
FILTER_BITS = 1 << 26
#: The `right_hash` of a question without a key.
_NO_KEY = 0


class Seen:
    """Maps each id to the line where it first occurs, for one pass over one file."""

    def __init__(self, most_in_memory: int = MOST_IN_MEMORY) -> None:
        self._recent: dict[str, int] = {}
        self._most = most_in_memory
        self._older: sqlite3.Connection | None = None
        self._filter = bytearray()

    def line_of(self, question_id: str) -> int | None:
        """Return the line of the first row with this id; None if the id is new."""
        line = self._recent.get(question_id)
        if line is None and self._older is not None and self._may_be_older(question_id):
            found = self._older.execute("SELECT line FROM seen WHERE id = ?", (question_id,)).fetchone()
            line = found and int(found[0])
        return line

    def _may_be_older(self, question_id: str) -> int:
        """Return nonzero if SQLite may have the id; 0 means that it certainly does not."""
        bit = hash(question_id) % FILTER_BITS
        return self._filter[bit >> 3] & 1 << (bit & 7)

    def add(self, question_id: str, line: int) -> None:
        """Remember a new id. Raises InputError if there is no disk space for it."""
        self._recent[question_id] = line
        if len(self._recent) >= self._most:
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
            self._older.execute("PRAGMA cache_size = -16384")
            self._older.execute("CREATE TABLE seen (id TEXT PRIMARY KEY, line INTEGER) WITHOUT ROWID")
            self._filter = bytearray(FILTER_BITS // 8)
        self._older.execute("BEGIN")
        self._older.executemany("INSERT INTO seen VALUES (?, ?)", sorted(self._recent.items()))
        self._older.execute("COMMIT")
        for bit in (hash(question_id) % FILTER_BITS for question_id in self._recent):
            self._filter[bit >> 3] |= 1 << (bit & 7)
        self._recent.clear()

    def close(self) -> None:
        """Release the disk space."""
        if self._older is not None:
            self._older.close()


class Repeats:
    """Finds questions that repeat an earlier one word for word, regardless of their ids and the order of choices."""

    def __init__(self) -> None:
        #: Two hashes per question: 16 bytes, where a content hash as text would take about a hundred.
        self._asked = array("q")
        self._right = array("q")

    def add(self, question: Question) -> None:
        """Record the next question."""
        self._asked.append(asked_hash(question))
        self._right.append(right_hash(question))

    def count(self) -> int:
        """Return the number of repeated questions."""
        import numpy  # late, as most commands read no questions

        hashes = numpy.sort(numpy.asarray(self._asked))
        return int(numpy.count_nonzero(hashes[1:] == hashes[:-1]))

    def contradicted(self) -> set[int]:
        """Return the `asked_hash` of each question that occurs with different keys."""
        import numpy  # late, as most commands read no questions

        right = numpy.asarray(self._right)
        keyed = numpy.stack((right, numpy.asarray(self._asked)))[:, right != _NO_KEY]
        right, asked = keyed[:, numpy.lexsort(keyed)]
        again = (asked[1:] == asked[:-1]) & (right[1:] != right[:-1])
        return {int(each) for each in asked[1:][again]}


def asked_hash(question: Question) -> int:
    """Return a hash of what is asked: equal for repeated questions, in this process."""
    return hash((question.context, *substance(question.question, question.choices)))


def right_hash(question: Question) -> int:
    """Return a hash of the right choices' texts; 0 without a key."""
    return hash(frozenset(map(question.choice_text, question.right))) if question.answer else _NO_KEY
