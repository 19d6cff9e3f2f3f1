"""Reading CSV and similar tables: cells separated by commas, tabs, semicolons or bars, with or without a header.

Without a header, the columns are expected in the order of the official MMLU files, question, choices, label of the
right choice, and are named `question`, `A`, `B`, … and `answer`. An empty cell means no value; rows with only empty
cells are skipped.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, pairwise
from typing import Protocol

from contract.errors import QuestionFileError
from contract.question import LABELS, MAX_CHOICES, MIN_CHOICES
from producer.readers.record import FieldTrouble, Record, shown_value
from producer.readers.stream import HEAD_BYTES
from producer.readers.text import Text

__all__ = [
    "Dialect",
    "dialect_of",
    "read_csv",
    "refuse_column_before_question",
    "refuse_row_as_header",
]

#: Maximum number of characters in a cell: enough for long contexts, but an unclosed quote is noticed.
LARGEST_CELL = 16 * 1024 * 1024
DELIMITERS = {",": "CSV", "\t": "TSV", ";": "CSV with semicolons", "|": "CSV with bars"}
#: Number of rows from which the dialect is detected.
_SAMPLE_ROWS = 50
#: Maximum number of words in the name of a column.
_MOST_WORDS = 4
_SPACE_AND_QUOTE = re.compile(' +"')
#: What hardly is the name of a column, as "Correct?" may be.
_ASKS = re.compile(r"\S+\s+\S+\s.*\?|.*？", re.DOTALL)


class Reader(Protocol):
    """The type of `csv.reader`'s result, for which the library has no public name."""

    @property
    def line_num(self) -> int:
        """Number of lines read."""
        ...

    def __iter__(self) -> Iterator[list[str]]: ...

    def __next__(self) -> list[str]: ...


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
    head = text.head(HEAD_BYTES)
    for delimiter in DELIMITERS:
        for quoted in (True, False) if delimiter == "\t" else (True,):
            bare = Dialect(delimiter, quoted, spaced=_is_spaced(head, delimiter))
            rows = _sample(text, bare)
            if rows and len(rows[0]) >= MIN_CHOICES:
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


#: The line in which Excel declares the delimiter. It is ignored, as the delimiter is detected from the cells.
_SEPARATOR = re.compile(r"sep=.?\s*", re.IGNORECASE)


def _lines(text: Text) -> Iterator[str]:
    """Yield the lines, also if they end in lone carriage returns; `sep=` becomes blank, to keep line numbers right."""
    head = text.head(HEAD_BYTES)
    alone = "\r" in head and "\n" not in head
    for number, line in enumerate(text.lines()):
        if alone:
            yield from (f"{each}\n" for each in line.split("\r"))
        else:
            yield "\n" if number == 0 and _SEPARATOR.fullmatch(line) else line


def _sample(text: Text, dialect: Dialect) -> list[list[str]]:
    reader = _reader(_lines(text), dialect)
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


def refuse_column_before_question(text: Text, dialect: Dialect) -> None:
    """Raise QuestionFileError if a table without a header seems to begin with a column of ids or subjects.

    Otherwise the id would be read as the question, the question as choice A, and every label would be off by one.
    """
    rows = [row for row in _sample(text, dialect) if len(row) == len(dialect.names)]
    first, second = [row[0].strip() for row in rows], [row[1].strip() for row in rows]
    most = len(rows) / 2
    words = sum(not re.search(r"\s", each) for each in first) > most
    again = len({*first}) <= most and sum(map(len, second)) > 2 * sum(map(len, first))
    asks = sum(each.endswith(("?", "？", ":", "_")) for each in second) > most
    if sum(map(str.isdigit, first)) > most or (words and (again or asks)):
        part, columns = "subject" if again else "id", range(3, len(dialect.names))
        choices = "+".join(map(str, columns))
        message = f"there is no header, and {shown_value(first[0])} in the first column does not look like a question."
        hint = f"Use --map {part}=1,question=2,choices={choices},answer={len(dialect.names)}, or add a header."
        raise QuestionFileError(message, path=text.shown, line=1, field="question", hint=hint)


def refuse_row_as_header(text: Text, dialect: Dialect) -> None:
    """Raise QuestionFileError if the line that is read as the header contains a question or a key instead of names."""
    names = dialect.names
    longest = max(names, key=len)
    # With the answer's text in the last cell, a line has one of its cells twice; names of columns are short.
    sentence = longest if len({*names}) < len(names) and len(longest.split()) > _MOST_WORDS else None
    question = next((name for name in names if _ASKS.fullmatch(name)), sentence)
    if question is not None:
        at: int | None = names.index(question)
        found = f"a question, {shown_value(question)}"
    elif (key := _column_of_keys(text, dialect)) is not None:
        # Which column has the question is known only if it is the first one, and the key is in the last.
        at = 0 if longest == names[0] and key == len(names) - 1 else None
        found = f"{shown_value(names[key])} in column {key + 1}, where all rows have a label or a number"
    else:
        return
    hint = f"Add a header with the names of the columns{_example_header(dialect, at)}."
    raise QuestionFileError(f"there is no header: the first line has {found}.", path=text.shown, line=1, hint=hint)


def _example_header(dialect: Dialect, at: int | None) -> str:
    """Return `, such as …` if the table has its questions in column `at` and the answers in the last one."""
    before = ["id", "subject"][:at]
    choices = len(dialect.names) - len(before) - 2
    if at != len(before) or not MIN_CHOICES <= choices <= MAX_CHOICES:
        return ""
    return f", such as {dialect.delimiter.join([*before, 'question', *LABELS[:choices], 'answer'])}"


def _column_of_keys(text: Text, dialect: Dialect) -> int | None:
    """Return the last column with a label, or an index, in the first line and all rows below it; None without one."""
    width = len(dialect.names)
    rows = [row for row in _sample(text, dialect) if len(row) == width]
    first, *below = [[_kind_of_key(cell.strip(), width) for cell in row] for row in rows]
    # Labels or numbers side by side may be the names of the choices, or the numbers that pandas gives columns.
    if not below or any(kind and kind == following for kind, following in pairwise(first)):
        return None
    keys = (at for at, kind in enumerate(first) if kind and all(row[at] == kind for row in below))
    return max(keys, default=None)


def _kind_of_key(cell: str, columns: int) -> str:
    """Return `index`, `label` or `lower case` if the cell may name a choice in a table of so many columns."""
    if len(cell) <= 2 and cell.isdecimal():
        return "index"
    labels = [*LABELS[:columns]]
    return "label" if cell in labels else "lower case" if cell.upper() in labels else ""


def read_csv(text: Text, dialect: Dialect) -> Iterator[Record]:
    """Yield the records of the file; one with an error for a row that is malformed or has the wrong number of cells.

    Raises QuestionFileError for a quote that is never closed, as what follows cannot be divided into rows.
    """
    twice = sorted({name for name in dialect.names if name and dialect.names.count(name) > 1})
    if twice:
        message = f"header: there are two columns {twice[0]!r}."
        raise QuestionFileError(message, path=text.shown, line=1, hint="Give each column a unique name.")
    lines = _Remembering(_lines(text))
    reader = _reader(lines, dialect)
    if dialect.header:
        # Skip blank rows before the header, as `dialect_of` does.
        next(filter(any, reader), None)
    while True:
        line = reader.line_num + 1
        lines.forget()
        try:
            cells = next(reader, None)
        except csv.Error as trouble:
            if lines.ended:
                raise _never_closed(text, line, trouble) from None
            content = lines.content()
            yield Record(line, content, trouble=_malformed(trouble, content, dialect))
            continue
        if cells is None:
            return
        # Spreadsheets export trailing rows of empty cells.
        if any(cells):
            yield _record(line, cells, dialect.names)


class _Remembering:
    """Iterates over lines and keeps those of the current row for its error message."""

    def __init__(self, lines: Iterator[str]) -> None:
        self._lines = lines
        self._kept: list[str] = []
        self.ended = False

    def __iter__(self) -> _Remembering:
        return self

    def __next__(self) -> str:
        try:
            line = next(self._lines)
        except StopIteration:
            self.ended = True
            raise
        self._kept.append(line)
        return line

    def forget(self) -> None:
        self._kept.clear()

    def content(self) -> str:
        return "".join(self._kept).rstrip("\r\n")


def _reader(lines: Iterator[str], dialect: Dialect) -> Reader:
    csv.field_size_limit(LARGEST_CELL)
    if dialect.quoted:
        return csv.reader(lines, delimiter=dialect.delimiter, skipinitialspace=dialect.spaced, strict=True)
    return csv.reader(lines, delimiter=dialect.delimiter, quoting=csv.QUOTE_NONE, strict=True)


def _never_closed(text: Text, line: int, trouble: csv.Error) -> QuestionFileError:
    return QuestionFileError(
        f"malformed CSV: a quote is opened here and never closed ({trouble}).",
        path=text.shown,
        line=line,
        hint="Double the quotes inside a quoted cell, and close the cell with a quote.",
    )


def _malformed(trouble: csv.Error, content: str, dialect: Dialect) -> FieldTrouble:
    hint = "Put a cell with a comma, a quote or a line break in double quotes, and double the quotes inside it."
    stray = _stray_quote(content, dialect)
    if stray is None:
        return FieldTrouble("", f"malformed CSV: {trouble}.", hint)
    around = content[max(0, stray - 15) : stray + 15]
    message = f"malformed CSV: the quote at column {stray + 1} (…{around}…) is inside a quoted cell and not doubled."
    return FieldTrouble("", message, hint, kind="malformed CSV: a quote inside a quoted cell is not doubled")


def _stray_quote(content: str, dialect: Dialect) -> int | None:
    """Return the position of the first quote inside a quoted cell that neither closes it nor is doubled."""
    quoted, starts, at = False, True, 0
    while at < len(content):
        if content[at] == '"':
            after = content[at + 1 : at + 2]
            if not quoted:
                quoted = starts
            elif after == '"':
                at += 1
            elif after in ("", dialect.delimiter, "\r", "\n"):
                quoted = False
            else:
                return at
        starts = content[at] == dialect.delimiter or (starts and dialect.spaced and content[at] == " ")
        at += 1
    return None


def _record(line: int, cells: list[str], names: Sequence[str]) -> Record:
    if len(cells) != len(names):
        message = f"found {len(cells)} cells, expected {len(names)}."
        too_many = len(cells) > len(names)
        hint = "Put a cell with a comma in double quotes."
        if too_many and any(map(_SPACE_AND_QUOTE.match, cells)):
            hint = "Remove the space in front of a quote that begins a cell."
        trouble = FieldTrouble("", message, hint, kind=f"too {'many' if too_many else 'few'} cells")
        return Record(line, cells, trouble=trouble)
    raw = {name or f"column {at}": cell for at, (name, cell) in enumerate(zip(names, cells, strict=True), start=1)}
    return Record(line, raw, raw, untyped=True)
