"""Refusing tables that would be misread: a row is taken for the header, or a column of ids for the questions.

`mapping_for` suggests a `--map` for columns whose names do not say what they hold.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise, takewhile
from string import ascii_lowercase, ascii_uppercase, digits

from contract.errors import QuestionFileError
from contract.question import LABELS, MAX_CHOICES, MIN_CHOICES
from producer.readers.csv_dialect import Dialect, sample
from producer.readers.record import shown_value
from producer.readers.text import Text

__all__ = ["mapping_for", "refuse_column_before_question", "refuse_row_as_header"]

#: Maximum number of words in the name of a column.
_MOST_WORDS = 4
#: A question: unlike "Correct?", it is hardly the name of a column.
_ASKS = re.compile(r"\S+\s+\S+\s.*\?|.*？", re.DOTALL)

#: What needs no quotes in a shell.
_PLAIN = re.compile(r"[\w+=,.…-]*")


def mapping_for(columns: Sequence[str]) -> str:
    """Return what to give to --map for a table with these columns, as far as their names tell the choices."""
    choices = "+".join(_enumerated(columns)) or "NAME+NAME+…"
    mapping = f"question=NAME,choices={choices},answer=NAME"
    return mapping if _PLAIN.fullmatch(mapping) else f"'{mapping}'"


def _enumerated(columns: Sequence[str]) -> list[str]:
    """Return the columns whose names differ only by A, B, … or 1, 2, … at their end: Antwort A, Antwort B."""
    for ends in (ascii_uppercase, ascii_lowercase, digits[1:]):
        for stem in dict.fromkeys(each[:-1] for each in columns if each.endswith(ends[0])):
            found = list(takewhile(columns.__contains__, (stem + end for end in ends)))
            if len(found) >= MIN_CHOICES and not set("+,='") & set(stem):  # --map would read these otherwise
                return found
    return []


def refuse_column_before_question(text: Text, dialect: Dialect) -> None:
    """Raise QuestionFileError if a table without a header seems to begin with a column of ids or subjects.

    Otherwise the id would be read as the question, the question as choice A, and every label would be off by one.
    """
    rows = [row for row in sample(text, dialect) if len(row) == len(dialect.names)]
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
    rows = [row for row in sample(text, dialect) if len(row) == width]
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
