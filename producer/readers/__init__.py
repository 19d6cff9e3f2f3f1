"""Question files, whatever their format: `read_questions` yields row by row what a file says."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from contract.errors import QuestionFileError, nearest
from producer.readers.csv import read_csv
from producer.readers.fields import to_row
from producer.readers.json import read_json
from producer.readers.jsonl import read_jsonl
from producer.readers.record import Record, Row
from producer.readers.source import Source, opened

__all__ = ["Row", "Source", "opened", "read_questions"]

_READERS: dict[str, Callable[[Path, str], Iterator[Record]]] = {
    ".csv": read_csv,
    ".json": read_json,
    ".jsonl": read_jsonl,
}


def read_questions(source: Source) -> Iterator[Row]:
    """Rows of the file, good and bad, in its order. Reads as it goes; a .json file is held as text meanwhile.

    Raises QuestionFileError where no row can be told from the next: no such file, unknown suffix, not UTF-8, broken
    JSON or CSV.
    """
    reader = _reader_for(source)
    try:
        for record in reader(source.path, source.shown):
            yield to_row(record, source.shown)
    except OSError as trouble:
        raise QuestionFileError(f"cannot be read: {trouble.strerror}.", path=source.shown) from None


def _reader_for(source: Source) -> Callable[[Path, str], Iterator[Record]]:
    if source.path.is_dir():
        inside = sorted(each.name for each in source.path.iterdir() if each.suffix in _READERS)
        hint = f"Name one file, for example {inside[0]}." if inside else "Name a file."
        raise QuestionFileError("is a folder, expected a question file.", path=source.shown, hint=hint)
    if not source.path.exists():
        beside = [each.name for each in source.path.parent.glob("*")]
        hint = nearest(source.path.name, beside) or "Check the path."
        raise QuestionFileError("no such file.", path=source.shown, hint=hint)
    suffix = source.path.suffix.lower()
    if suffix not in _READERS:
        known = ", ".join(_READERS)
        raise QuestionFileError(
            f"unknown suffix {suffix!r}, expected {known}.",
            path=source.shown,
            hint="Rename or convert it; - reads JSON Lines from standard input.",
        )
    return _READERS[suffix]
