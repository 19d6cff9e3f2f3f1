"""What a file had before: ids in flat memory, the newest in a dict, older ones in a temporary database on disk; and
questions, as hashes."""

from __future__ import annotations

import sqlite3
from array import array

from contract.question import Question, substance
from producer.temporary import no_room

__all__ = ["Repeats", "Seen"]

#: Ids in memory, some 3 MB; SQLite's cache holds 16 MB at most.
MOST_IN_MEMORY = 20_000
#: Bits that tell most new ids without asking SQLite (a Bloom filter with one hash), 8 MiB. Of a million ids, 0.7 % of
#: the new ones are looked up in vain on average; of ten million, 7 %.
FILTER_BITS = 1 << 26


class Seen:
    """Id → the line that it first stood on. For one reading of one file."""

    def __init__(self, most_in_memory: int = MOST_IN_MEMORY) -> None:
        self._recent: dict[str, int] = {}
        self._most = most_in_memory
        self._older: sqlite3.Connection | None = None
        self._filter = bytearray()

    def line_of(self, question_id: str) -> int | None:
        """The line of the first row with this id; None for a new one."""
        line = self._recent.get(question_id)
        if line is None and self._older is not None and self._may_be_older(question_id):
            found = self._older.execute("SELECT line FROM seen WHERE id = ?", (question_id,)).fetchone()
            line = found and int(found[0])
        return line

    def _may_be_older(self, question_id: str) -> int:
        """Whether SQLite may know the id; 0 means that it surely does not."""
        bit = hash(question_id) % FILTER_BITS
        return self._filter[bit >> 3] & 1 << (bit & 7)

    def add(self, question_id: str, line: int) -> None:
        """Remember a new id. Raises InputError where there is no room for it."""
        self._recent[question_id] = line
        if len(self._recent) >= self._most:
            try:
                self._put_away()
            except sqlite3.Error as trouble:
                raise no_room("the ids of the questions", trouble) from None

    def _put_away(self) -> None:
        if self._older is None:
            # An empty name is a database in a temporary file, gone when it is closed; what a crash leaves is nobody's.
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
        """Give the disk space back."""
        if self._older is not None:
            self._older.close()


class Repeats:
    """Counts questions that ask, word for word, what one before them asks, whatever its id and its choices' order."""

    def __init__(self) -> None:
        #: By its hash, what each question asks: eight bytes, where an id of a content hash would take a hundred.
        self._asked = array("q")

    def add(self, question: Question) -> None:
        """Take one more into account."""
        self._asked.append(hash((question.context, *substance(question.question, question.choices))))

    def count(self) -> int:
        """How many there are."""
        import numpy  # late: most commands read no questions

        hashes = numpy.asarray(self._asked)
        hashes.sort()  # where they are: a copy of a large file's would double them
        return int(numpy.count_nonzero(hashes[1:] == hashes[:-1]))
