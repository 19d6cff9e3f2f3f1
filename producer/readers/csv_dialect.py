"""How a table is divided into cells, by commas, tabs, semicolons or bars; detected from its first rows.

Without a header, the columns are expected in the order of the official MMLU files, question, choices, label of the
right choice, and are named `question`, `A`, `B`, … and `answer`.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING

from contract.errors import QuestionFileError
from contract.question import LABELS, MAX_CHOICES, MIN_CHOICES
from producer.readers.text import Text

if TYPE_CHECKING:
    from _csv import Reader  # `csv` has no name for it

__all__ = ["Dialect", "dialect_of", "lines_of", "reader_of", "sample"]

#: Maximum number of characters in a cell: enough for long contexts, but an unclosed quote is noticed.
LARGEST_CELL = 16 * 1024 * 1024
DELIMITERS = {",": "CSV", "\t": "TSV", ";": "CSV with semicolons", "|": "CSV with bars"}
#: Delimiters, and whether quotes enclose cells; of equally good ones, the first is taken.
_DIVISIONS = ((",", True), ("\t", True), ("\t", False), (";", True), ("|", True))
#: Number of rows from which the dialect is detected.
_SAMPLE_ROWS = 50
#: The line in which Excel declares the delimiter. It is ignored, as the delimiter is detected from the cells.
_SEPARATOR = re.compile(r"sep=.?\s*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Dialect:
    """How a table is divided into cells."""

    delimiter: str
    #: Whether double quotes enclose cells; in many TSV files they are ordinary characters.
    quoted: bool
    #: Names of the columns.
    names: tuple[str, ...] = ()
    header: bool = False
    #: Whether quotes may follow a space, `red, "blue, green"`; spaces in front of a cell then belong to no cell.
    spaced: bool = False

    @property
    def title(self) -> str:
        """The name of this kind of table."""
        return DELIMITERS[self.delimiter] + ("" if self.header else " without header")


def dialect_of(
    text: Text, is_header: Callable[[Sequence[str]], bool], *, named: bool, numbered: bool = False
) -> Dialect | None:
    """Return the dialect of `text`; None if its first rows are not a table.

    `is_header` says whether cells are column names. `named`: the user refers to columns by name, so the first row is
    the header whatever it contains; `numbered`: the user refers to columns by number, starting at 1.
    """
    best: tuple[int, Dialect] | None = None
    head = text.head()
    for delimiter, quoted in _DIVISIONS:
        bare = Dialect(delimiter, quoted, spaced=_is_spaced(head, delimiter))
        rows = sample(text, bare)
        if not rows or len(rows[0]) < MIN_CHOICES:
            continue
        # A recognised header outweighs the number of rows of equal length.
        score = sum(len(row) == len(rows[0]) for row in rows) + 2 * _SAMPLE_ROWS * is_header(rows[0])
        if best is None or score > best[0]:
            best = score, _dialect(rows, bare, is_header, named=named, numbered=numbered)
    return best[1] if best else None


def _dialect(
    rows: Sequence[Sequence[str]],
    bare: Dialect,
    is_header: Callable[[Sequence[str]], bool],
    *,
    named: bool,
    numbered: bool,
) -> Dialect:
    first = tuple(name.strip() for name in rows[0])
    if numbered:
        numbers = tuple(str(at) for at in range(1, len(first) + 1))
        return replace(bare, names=numbers, header=is_header(first))
    headless = () if named or is_header(first) else _headless(rows)
    return replace(bare, names=headless or first, header=not headless)


def _is_spaced(head: str, delimiter: str) -> bool:
    """Whether quotes behind a space enclose cells, `red, "blue, green"`, more often than they are part of them."""
    end = rf"[{delimiter}\r\n]"
    # Most files have neither, and dividing them into cells takes longer.
    if delimiter == "\t" or not re.search(rf'{end} +"', head):
        return False
    quoted = r'"[^"]*(?:""[^"]*)*"'
    cells = re.finditer(rf'(?:^|{end})(?:(?P<enclosed> +{quoted}(?={end}|$))|(?P<part> +")|{quoted})?', head)
    found = Counter(cell.lastgroup for cell in cells)
    return found["enclosed"] > found["part"]


def lines_of(text: Text) -> Iterator[str]:
    """Yield the lines, also if they end in lone carriage returns; `sep=` becomes blank, to keep line numbers right."""
    head = text.head()
    alone = "\r" in head and "\n" not in head
    for number, line in enumerate(text.lines()):
        if alone:
            yield from (f"{each}\n" for each in line.split("\r"))
        else:
            yield "\n" if number == 0 and _SEPARATOR.fullmatch(line) else line


def sample(text: Text, dialect: Dialect) -> list[list[str]]:
    """Return the first rows with cells that are not empty, up to one that is malformed."""
    reader = reader_of(lines_of(text), dialect)
    rows: list[list[str]] = []
    for _ in range(_SAMPLE_ROWS):
        try:
            rows += [cells for cells in islice(reader, 1) if any(cells)]
        except csv.Error:
            break
        except QuestionFileError:
            if rows:
                break
            raise
    return rows


def _headless(rows: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """Return names for a table without a header: question, choices, label. Empty if the rows do not look like that."""
    width = len(rows[0])
    choices = width - 2
    # If the first row has more than one letter in the label column, it is a header with unknown names ("Lösung").
    if not MIN_CHOICES <= choices <= MAX_CHOICES or len(rows[0][-1].strip()) > 1:
        return ()
    fitting = sum(len(row) == width and row[-1].strip() in LABELS[:choices] and bool(row[-1].strip()) for row in rows)
    return ("question", *LABELS[:choices], "answer") if fitting * 2 > len(rows) else ()


def reader_of(lines: Iterator[str], dialect: Dialect) -> Reader:
    """Return a reader of the rows, as lists of cells. It raises csv.Error at a malformed row."""
    csv.field_size_limit(LARGEST_CELL)
    if dialect.quoted:
        return csv.reader(lines, delimiter=dialect.delimiter, skipinitialspace=dialect.spaced, strict=True)
    return csv.reader(lines, delimiter=dialect.delimiter, quoting=csv.QUOTE_NONE, strict=True)
