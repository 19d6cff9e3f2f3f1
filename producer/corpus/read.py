"""Reading the documents of a corpus: JSON Lines, CSV or TSV, also compressed, Parquet, or a folder of texts."""

from __future__ import annotations

import csv
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from contract.errors import QuestionFileError, nearest
from producer.corpus.document import TEXT_FIELDS, Document, parts_of, to_document
from producer.readers.csv import read_csv
from producer.readers.csv_dialect import Dialect, dialect_of, lines_of, reader_of
from producer.readers.jsonl import read_jsonl
from producer.readers.parquet import read_parquet
from producer.readers.record import Record, Records
from producer.readers.stream import explaining
from producer.readers.text import Text, text_of

__all__ = ["Reading", "Unfit", "read_documents"]


class Unfit(NamedTuple):
    """An entry of the corpus that is not a valid document, and its error."""

    raw: Any
    trouble: QuestionFileError


@dataclass(frozen=True, slots=True)
class Reading:
    """How to read a corpus, and the fields found while reading it."""

    #: The encoding of the texts; empty to detect it.
    encoding: str = ""
    #: Part of a document → its fields, if they have other names.
    mapping: Mapping[str, Sequence[str]] = field(default_factory=dict)
    #: Names of the records' fields, in order of appearance.
    fields: dict[str, None] = field(default_factory=dict)
    #: Suffix → number of the folder's files that are no texts.
    other_files: Counter[str] = field(default_factory=Counter)

    @property
    def lacks_ids(self) -> bool:
        """Whether the records have no field for ids, so that documents are called by hashes of their texts."""
        return bool(self.fields) and self.fields.keys().isdisjoint(parts_of(self.mapping, self.fields)["id"])

    def left_alone(self) -> list[str]:
        """Return the fields that were not used for any part of a document."""
        used = {name for names in parts_of(self.mapping, self.fields).values() for name in names}
        return [name for name in self.fields if name not in used]


def _read_table(text: Text, reading: Reading) -> Iterator[Record]:
    """Yield the records of a table with commas, tabs, semicolons or bars, whose first row names the columns."""
    wanted = {*reading.mapping.get("text", TEXT_FIELDS)}
    dialect = dialect_of(text, lambda names: not wanted.isdisjoint(name.strip() for name in names), named=True)
    yield from read_csv(text, dialect or Dialect(",", quoted=True, names=_header(text), header=True))


def _header(text: Text) -> tuple[str, ...]:
    """Return the column names of a table whose delimiter cannot be detected: it has one column, or is malformed."""
    try:
        names = next(filter(None, reader_of(lines_of(text), Dialect(",", quoted=True))), [])
    except csv.Error as trouble:
        hint = "Close every quote that is opened in it."
        raise QuestionFileError(f"malformed CSV: header: {trouble}.", path=text.shown, line=1, hint=hint) from None
    return tuple(name.strip() for name in names)


_TABLES = {".csv": _read_table, ".tsv": _read_table, ".jsonl": lambda text, _: read_jsonl(text)}
_TEXTS = (".txt", ".md")
#: Suffixes of compressed texts; the actual compression is detected from the first bytes.
_PACKED = (".gz", ".zst")


def read_documents(corpus: Path, reading: Reading | None = None) -> Iterator[Document | Unfit]:
    """Yield the documents of the corpus in order: the records of a file, or the files of a folder by their path.

    No entry is skipped silently: one that is not a valid document is yielded as `Unfit`, with file, line, field and
    remedy. Raises QuestionFileError if the entries cannot be separated. The caller must check ids for duplicates.
    """
    reading = reading or Reading()
    try:
        yield from _files(corpus, reading) if corpus.is_dir() else _records(corpus, reading)
    except OSError as trouble:
        hint = "Check the path and its permissions."
        path = trouble.filename or corpus
        raise QuestionFileError(f"cannot be read: {trouble.strerror}.", path=path, hint=hint) from None


def _records(corpus: Path, reading: Reading) -> Iterator[Document | Unfit]:
    with explaining(str(corpus)):
        for record in _reader(corpus, reading)():
            try:
                yield to_document(record, str(corpus), reading.mapping)
            except QuestionFileError as trouble:
                yield Unfit(record.raw, trouble)
            reading.fields.update(dict.fromkeys(map(str, record.fields or ())))
    _refuse_unknown_fields(corpus, reading)


def _refuse_unknown_fields(corpus: Path, reading: Reading) -> None:
    """Raise QuestionFileError if a mapped field is in no record: one record may lack it, but in all it is a mistake."""
    unknown = [name for names in reading.mapping.values() for name in names if name not in reading.fields]
    if unknown and reading.fields:
        there = list(reading.fields)
        message = f"no document has such a field; found {', '.join(there)}."
        hint = nearest(unknown[0], there) or "Correct --map."
        raise QuestionFileError(message, path=corpus, field=unknown[0], hint=hint)


def _reader(corpus: Path, reading: Reading) -> Records:
    if not corpus.exists():
        beside = [each.name for each in corpus.parent.glob("*")]
        raise QuestionFileError(
            "no such file or folder.", path=corpus, hint=nearest(corpus.name, beside) or "Check the path."
        )
    suffixes = [each.lower() for each in corpus.suffixes]
    packed = bool(suffixes) and suffixes[-1] in _PACKED
    suffix = next(iter(suffixes[-2:-1] if packed else suffixes[-1:]), "")
    if suffix == ".parquet" and not packed:
        return partial(read_parquet, corpus, str(corpus))
    if suffix in _TABLES:
        return partial(_TABLES[suffix], text_of(corpus, str(corpus), reading.encoding), reading)
    known = ", ".join(_TABLES)
    raise QuestionFileError(
        f"unknown suffix {''.join(corpus.suffixes[-2:]) if packed else corpus.suffix!r}, expected {known} "
        f"(also with {' or '.join(_PACKED)}), .parquet, or a folder of {' and '.join(_TEXTS)} files.",
        path=corpus,
        hint="Rename or convert it.",
    )


def _files(folder: Path, reading: Reading) -> Iterator[Document | Unfit]:
    """Yield every text below `folder`, with its relative path as id; hidden files and folders are skipped.

    Other files are counted. Raises QuestionFileError if there are only such, OSError if a folder cannot be listed.
    """
    texts = 0
    for path in _below(folder):
        inside, suffix = path.relative_to(folder), path.suffix.lower()
        if not path.is_dir() and suffix not in _TEXTS:
            reading.other_files[suffix] += 1
            continue
        texts += 1
        try:
            yield _file(path, inside.as_posix(), reading)
        except QuestionFileError as trouble:
            yield Unfit(inside.as_posix(), trouble)
    if not texts and reading.other_files:
        others = (f"{count:,} {suffix or 'without a suffix'}" for suffix, count in reading.other_files.most_common())
        raise QuestionFileError(
            f"has no {' or '.join(_TEXTS)} files, but {', '.join(others)}.",
            path=folder,
            hint="Name a file of records itself, not its folder.",
        )


def _below(folder: Path) -> list[Path]:
    """Return what is not hidden below `folder`, in order: files, and links that lead to folders or nowhere."""

    def fail(trouble: OSError) -> None:
        raise trouble

    found: list[Path] = []
    for place, folders, files in os.walk(folder, onerror=fail):
        folders[:] = [name for name in folders if not name.startswith(".")]
        found += [path for path in (Path(place, name) for name in folders) if path.is_symlink()]
        there = [Path(place, name) for name in files if not name.startswith(".")]
        found += [path for path in there if path.is_file() or path.is_symlink()]  # a pipe would never end
    return sorted(found)


def _file(path: Path, name: str, reading: Reading) -> Document:
    try:
        name.encode()
    except UnicodeEncodeError:
        shown = os.fsencode(path).decode(errors="backslashreplace")
        raise QuestionFileError("the file's name is not UTF-8.", path=shown, hint="Rename the file.") from None
    if path.is_dir():
        hint = "Put the folder itself there, or remove the link."
        raise QuestionFileError("is a link to a folder, and these are not followed.", path=path, hint=hint)
    if not path.is_file():
        raise QuestionFileError("is a link that leads to no file.", path=path, hint="Correct or remove the link.")
    with explaining(str(path)):
        text = text_of(path, str(path), reading.encoding).whole().strip()
    if not text:
        raise QuestionFileError("the file is empty.", path=path, hint="Add text, or remove the file.")
    return Document(id=name, text=text, path=name, question_hash="", shown=str(path), line=None)
