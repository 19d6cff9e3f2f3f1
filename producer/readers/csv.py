"""CSV in our own layout, its header on the first line.

Columns: `question`; the choices, either as one column each (`choice_a, choice_b, …`, `choice0, choice1, …` or
`A, B, …`) or as one column `choices` that holds a JSON list; and, where there are such, `answer`, `id`, `subject`,
`context`, `metadata` (a JSON object). Any other column is metadata. An empty cell is no value; choices may be fewer
than their columns, but only the last ones may be empty.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import ascii_lowercase
from typing import Any

from contract.errors import QuestionFileError, nearest
from producer.readers.jsonl import DECODER
from producer.readers.record import FieldTrouble, Record
from producer.readers.text import read_lines

__all__ = ["read_csv"]

#: Characters in one cell at most: a context may be long, a quote that was never closed should be noticed.
LARGEST_CELL = 16 * 1024 * 1024
KNOWN = ("question", "answer", "id", "subject", "context", "choices", "metadata")
_CHOICE = re.compile(r"(?:choice_?)?([a-z])|choice_?(\d+)", re.IGNORECASE)


def read_csv(path: Path, shown: str) -> Iterator[Record]:
    """Records of the file. A row with too many or too few cells is a record with its trouble."""
    csv.field_size_limit(LARGEST_CELL)
    reader = csv.reader(read_lines(path, shown), strict=True)
    line = 1
    try:
        header = next(reader, None)
        if header is None:
            return
        columns = _understand(header, shown)
        number, line = 0, reader.line_num + 1
        for cells in reader:
            if cells:
                number += 1
                yield _record(number, line, cells, columns)
            line = reader.line_num + 1
    except csv.Error as trouble:
        raise QuestionFileError(
            f"malformed CSV: {trouble}.",
            path=shown,
            line=line,
            hint="A cell with a comma, a quote or a line break stands in double quotes, quotes inside are doubled.",
        ) from None


@dataclass(frozen=True, slots=True)
class _Columns:
    """What the header says."""

    names: tuple[str, ...]
    #: Positions of the choices' columns, first choice first; empty with one column `choices`.
    choices: tuple[int, ...]


def _understand(header: Sequence[str], shown: str) -> _Columns:
    names = [_known_spelling(name.strip()) or f"column {at}" for at, name in enumerate(header, start=1)]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise _header_error(f"column {twice[0]!r} stands twice", shown)
    if "question" not in names:
        raise _header_error(f"no column 'question' among {', '.join(names)}", shown, nearest("question", names))
    choices = _choice_columns(names, shown)
    if not choices and "choices" not in names:
        raise _header_error(f"no choices among the columns {', '.join(names)}", shown)
    if choices and "choices" in names:
        raise _header_error(f"both 'choices' and {names[choices[0]]!r}: the choices stand twice", shown)
    return _Columns(tuple(names), choices)


def _known_spelling(name: str) -> str:
    return name.lower() if name.lower() in KNOWN else name


def _choice_columns(names: Sequence[str], shown: str) -> tuple[int, ...]:
    found: dict[int, int] = {}
    for position, name in enumerate(names):
        match = _CHOICE.fullmatch(name)
        if match is None or name in KNOWN:
            continue
        letter, digits = match.groups()
        rank = ascii_lowercase.index(letter.lower()) if letter else int(digits)
        if rank in found:
            raise _header_error(f"{names[found[rank]]!r} and {name!r} are the same choice", shown)
        found[rank] = position
    if found and sorted(found) != list(range(len(found))):
        raise _header_error(
            f"the choices' columns {', '.join(names[found[rank]] for rank in sorted(found))} leave a gap", shown
        )
    return tuple(found[rank] for rank in sorted(found))


def _header_error(message: str, shown: str, hint: str = "") -> QuestionFileError:
    wanted = "Expected question, answer, and choice_a, choice_b, … (or choice0, choice1, …, or one column choices)."
    return QuestionFileError(f"header: {message}.", path=shown, line=1, hint=f"{hint} {wanted}".strip())


def _record(number: int, line: int, cells: Sequence[str], columns: _Columns) -> Record:
    if len(cells) != len(columns.names):
        trouble = FieldTrouble(
            "", f"found {len(cells)} cells, expected {len(columns.names)}.", "Put a cell with a comma in double quotes."
        )
        return Record(number, line, list(cells), trouble=trouble)
    raw = dict(zip(columns.names, cells, strict=True))
    try:
        return Record(number, line, raw, _fields(raw, cells, columns), untyped=True)
    except FieldTrouble as trouble:
        return Record(number, line, raw, trouble=trouble)


def _fields(raw: Mapping[str, str], cells: Sequence[str], columns: _Columns) -> dict[str, Any]:
    own = set(columns.choices)
    fields: dict[str, Any] = {
        name: cell
        for position, (name, cell) in enumerate(raw.items())
        if position not in own and (cell or name in {"question", "answer"})
    }
    if columns.choices:
        choices = [cells[position] for position in columns.choices]
        while choices and not choices[-1].strip():
            choices.pop()
        fields["choices"] = choices
    for name in ("choices", "metadata"):
        if isinstance(fields.get(name), str):
            fields[name] = _json_cell(name, fields[name])
    return fields


def _json_cell(name: str, cell: str) -> Any:
    try:
        return DECODER.decode(cell)
    except json.JSONDecodeError as trouble:
        raise FieldTrouble(
            name, f"malformed JSON in the cell: {trouble.msg} at its character {trouble.pos + 1}.", _example(name)
        ) from None
    except (ValueError, RecursionError) as trouble:
        raise FieldTrouble(name, f"malformed JSON in the cell: {trouble}.", _example(name)) from None


def _example(name: str) -> str:
    return 'For example ["red", "blue"].' if name == "choices" else 'For example {"level": 3}.'
